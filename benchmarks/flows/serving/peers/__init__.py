"""The same two stages in other servers. They run in an environment of their own: see ``setup_peers.sh``."""
