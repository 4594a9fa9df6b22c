"""How much of its topics a query reads in a batch, and at which time all of them end."""
