"""Training data from record files to models, and what was learned on to an endpoint."""
