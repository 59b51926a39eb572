"""Control: pipelines that choose their stages by the query, and search again where it lacks.

`modular.py` routes, checks and retries; `agent.py` plans turn by turn.  Both are guides of a
`Pipeline`, and what they decide stands in its trace.
"""
