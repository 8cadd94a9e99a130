"use strict";
// The page of the audit works without this script. It shows local times, and adds new lines.
(() => {
  const $ = (s) => document.querySelector(s);
  const local = (in_) => in_.querySelectorAll("time[data-local]").forEach((t) => { t.textContent = new Date(t.dateTime).toLocaleString("sv-SE"); });
  local(document);
  $("[data-zone]").textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const follow = $("[data-follow]");
  let stream = null;
  const tell = (text) => { $("#following").textContent = text; };
  const unfollow = (text) => { stream?.close(); stream = null; follow.setAttribute("aria-pressed", "false"); tell(text); };
  const line = (e) => {
    const t = document.createElement("template");
    t.innerHTML = e.data;
    const row = t.content.firstElementChild, list = $("#lines");
    if (document.getElementById(row.id)) return;
    local(row);
    list.prepend(row);
    list.closest("table").hidden = false;
    $(".empty")?.remove();
    while (list.children.length > 200) list.lastElementChild.remove();
  };
  if (follow && window.EventSource) {
    follow.hidden = false;
    follow.addEventListener("click", () => {
      if (stream) return unfollow("Stopped following.");
      stream = new EventSource(follow.dataset.follow);
      follow.setAttribute("aria-pressed", "true");
      stream.onopen = () => tell("New lines appear here.");
      stream.onerror = () => { stream?.readyState === 2 ? unfollow("Cannot follow now. Load the page again.") : tell("The connection is lost. The browser tries again."); };
      stream.addEventListener("line", line);
      stream.addEventListener("gap", (e) => tell(e.data));
      stream.addEventListener("end", (e) => unfollow(e.data));
    });
  }
})();
