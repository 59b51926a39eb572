"""Pictures of a trace. A view draws what was recorded and computes no retrieval."""

from raglab.views.charts import lengths_figure
from raglab.views.chunkmap import ChunkMap
from raglab.views.chunkmodel import chunk_model
from raglab.views.explorer import Explorer
from raglab.views.figures import flow_svg, parts_figure
from raglab.views.flow import Flow, export_html
from raglab.views.tables import flow_model, ranking_table, trace_table

__all__ = [
    "ChunkMap",
    "Explorer",
    "Flow",
    "chunk_model",
    "export_html",
    "flow_model",
    "flow_svg",
    "lengths_figure",
    "parts_figure",
    "ranking_table",
    "trace_table",
]
