"""Random mutations of what is read from disk and network (`read`)."""
