// Refreshes the parts of a page that say so, while somebody looks at it. Nothing else: every page works without.
"use strict";

for (const part of document.querySelectorAll("[data-refresh]")) {
  const refresh = async () => {
    const chosen = document.getSelection();
    const isUsed = part.contains(document.activeElement) || (!chosen.isCollapsed && part.contains(chosen.anchorNode));
    if (!document.hidden && !isUsed) {
      try {
        const answer = await fetch(part.dataset.refresh, { redirect: "error" });
        if (!answer.ok) throw new Error(answer.status);
        part.innerHTML = await answer.text();
        part.classList.remove("stale");
      } catch {
        part.classList.add("stale");
      }
    }
    setTimeout(refresh, Number(part.dataset.every));
  };
  setTimeout(refresh, Number(part.dataset.every));
}
