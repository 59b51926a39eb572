"""Playing with a pipeline: its dials, and one question asked again and again."""
