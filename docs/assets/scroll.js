// Wide tables scroll by themselves: let the keyboard reach them, too.
document$.subscribe(() => {
  for (const one of document.querySelectorAll(".md-typeset__scrollwrap")) {
    one.tabIndex = 0;
    one.setAttribute("role", "region");
    one.setAttribute("aria-label", "Table");
  }
});
