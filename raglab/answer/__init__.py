"""The online half of RAG that says: assemble the context, generate the answer."""
