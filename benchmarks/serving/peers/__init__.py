"""The same two stages in other servers. They run in a separate environment: see ``setup_peers.sh``."""
