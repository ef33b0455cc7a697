"""The page of a run, a page that recognises images, and figures as SVG; each is one file."""

from bowsaw.markup import table, tag
from bowsaw.report.charts import write_figure
from bowsaw.report.page import Section, write_page
from bowsaw.report.recogniser_page import write_recogniser_page

__all__ = ["Section", "table", "tag", "write_figure", "write_page", "write_recogniser_page"]
