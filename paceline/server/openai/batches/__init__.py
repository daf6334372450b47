"""/v1/files and /v1/batches over a local folder."""
