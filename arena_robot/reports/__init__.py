"""Reports and plots of results."""
