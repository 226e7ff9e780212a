"""The two-stage Abalone pipeline behind one endpoint: Penstock beside other servers, in one run."""
