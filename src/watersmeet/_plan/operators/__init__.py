"""The operators: what a user declares, and what each of them reads, keeps and gives; a file for each family."""
