"""What the project is developed with: setup, jars and a real Kafka broker. Nothing here ships with watersmeet.

The modules need only Python's standard library unless they say otherwise, since `make setup` runs some of
them before anything is installed. dev/README.md says what each does.
"""
