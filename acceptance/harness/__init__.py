"""What the acceptance tests share. It speaks to a running server and never looks into its code."""
