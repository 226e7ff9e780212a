"""The two-stage Abalone pipeline behind one endpoint: Headrace beside other servers, in one run."""
