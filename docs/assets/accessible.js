// What the theme leaves unnamed: tables that scroll, the buttons of code blocks, and the
// navigation of sections that have a page of their own.
document$.subscribe(() => {
  for (const one of document.querySelectorAll(".md-typeset__scrollwrap")) {
    one.tabIndex = 0;
    one.setAttribute("role", "group");
    one.setAttribute("aria-label", "Table");
  }
  for (const one of document.querySelectorAll(".md-code__nav")) {
    one.setAttribute("role", "none");
  }
  for (const one of document.querySelectorAll("nav[aria-labelledby]")) {
    const label = document.getElementById(one.getAttribute("aria-labelledby"));
    if (!label?.textContent.trim()) {
      one.removeAttribute("aria-labelledby");
      one.setAttribute("aria-label", one.querySelector(".md-nav__title")?.textContent.trim() ?? "");
    }
  }
});
