"""The meaning of a topology: frozen nodes, the rules that turn them into levels, and their text.

Between the handles (what the user says) and the engines (what runs). Imports vocabulary alone: a plan can be built,
checked, rewritten and printed without a session of Spark.
"""
