"use strict";
// Forms and links work without this script. It adds shortcuts, polls, and announces changes to
// screen readers.
(() => {
  const $ = (s, in_ = document) => in_.querySelector(s);
  const all = (s, in_ = document) => [...in_.querySelectorAll(s)];
  const say = (text) => { $("#said").textContent = text; };
  const press = (s) => { $(s)?.click(); return !!$(s); };

  // In lists the keys move between the first links of rows.
  const rows = () => all("[data-list] > *").filter((r) => $("a", r));
  const move = (by) => {
    const list = rows();
    if (!list.length) return false;
    const at = list.findIndex((r) => r.contains(document.activeElement));
    const to = list[at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.max(0, Math.min(list.length - 1, at + by))];
    $("a", to).focus();
    to.scrollIntoView({ block: "nearest" });
    return true;
  };
  const tick = () => {
    const row = rows().find((r) => r.contains(document.activeElement));
    const box = row && $("input[type=checkbox]", row);
    if (box) box.click();
    return !!box;
  };
  const focus = (s) => { $(s)?.focus(); return !!$(s); };
  const said = "#decide :is([name=note], [name=reason])";
  const approve = () => {
    const note = $(said);
    if (note && note.dataset.needed && !note.value.trim()) {
      note.focus();
      say(note.dataset.needed);
      return true;
    }
    return press("#decide [value^=approve]");
  };
  const help = () => { const d = $("#keys"); if (d && d.showModal) d.open ? d.close() : d.showModal(); return !!d; };
  const keys = {
    a: approve, b: () => press("#decide [value=block]"), n: () => focus(said),
    s: () => press("[data-go=s]"), u: () => press("[value=undo]"), x: tick, "/": () => focus("[type=search]"), "?": help,
    j: () => press("[data-go=j]") || (!$("#decide") && move(1)), k: () => press("[data-go=k]") || (!$("#decide") && move(-1)),
  };
  document.addEventListener("keydown", (e) => {
    const typing = e.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
    if (typing && e.key === "Escape") typing.blur();
    if (typing || e.ctrlKey || e.metaKey || e.altKey || e.repeat && !"jk".includes(e.key)) return;
    if (!("keys" in document.body.dataset) || $("dialog[open]") && e.key !== "?") return;
    if (keys[e.key]?.()) e.preventDefault();
  });
  document.addEventListener("click", (e) => {
    if (e.target.closest(".tickall")) {
      e.preventDefault();
      const boxes = all("[name=item]");
      boxes.forEach((b) => { b.checked = true; });
      say(boxes.length + " ticked");
    } else if (e.target.closest("[href='#keys']") && help()) e.preventDefault();
  });

  const poll = () => { if (!document.hidden && $("[data-poll]") && window.htmx) htmx.trigger("[data-poll]", "poll"); };
  let waited = 0; // seconds since the last poll
  setInterval(() => { if (++waited >= (+$("[data-poll]")?.dataset.poll || 20)) { waited = 0; poll(); } }, 1000);
  document.addEventListener("visibilitychange", poll);

  if (navigator.clipboard) all("[data-copy]").forEach((b) => { b.hidden = false; });
  document.addEventListener("click", async (e) => {
    const b = e.target.closest("[data-copy]");
    if (!b) return;
    await navigator.clipboard.writeText($("pre", b.closest("section")).textContent);
    say("copied");
    b.textContent = "Copied";
  });

  let held = "";
  document.addEventListener("htmx:configRequest", (e) => {
    const d = e.detail;
    d.headers.Accept = "text/html";
    for (const [name, value] of Object.entries(d.parameters)) if (value === "") delete d.parameters[name];
  });
  document.addEventListener("htmx:beforeSwap", (e) => {
    const d = e.detail, poll = "poll" in d.target.dataset;
    held = document.activeElement?.getAttribute("href") || "";
    if (d.xhr.status === 204 || poll && d.isError || d.serverResponse.includes(`id="${d.target.id}"`)) return;
    d.shouldSwap = false; // an error or the sign-in, which is a separate page
    location.assign(poll ? location.href : d.pathInfo.finalRequestPath);
  });
  const typed = (f) => f === document.activeElement || f.value !== f.defaultValue || f.checked !== f.defaultChecked;
  document.addEventListener("htmx:oobBeforeSwap", (e) => { // keeps text that a person types
    if (!all("input:not([type=hidden]), textarea", e.detail.target).some(typed)) return;
    e.detail.shouldSwap = false;
    const said = document.createElement("div");
    said.className = "message";
    said.textContent = "This changed while you were typing. What you typed is kept: load the page to see the change.";
    $("#live").replaceChildren(said);
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (held && document.activeElement === document.body) all("main a").find((a) => a.getAttribute("href") === held)?.focus();
    const said = $("[data-say]"), title = $("[data-title]");
    if (said) say(said.dataset.say);
    if (title) document.title = title.dataset.title;
  });
  if (document.activeElement === document.body) focus("[autofocus]");
})();
