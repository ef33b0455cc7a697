"""The page of a run: one HTML file, and figures as SVG."""

from bowsaw.markup import table, tag
from bowsaw.report.charts import write_figure
from bowsaw.report.page import Section, write_page

__all__ = ["Section", "table", "tag", "write_figure", "write_page"]
