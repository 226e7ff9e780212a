"""Ray: the connection to a cluster, and tasks on its workers."""
