"use strict";
// Forms and links work without this script. It adds shortcuts, polls, and announces changes to
// screen readers.
(() => {
  const $ = (s, in_ = document) => in_.querySelector(s);
  const all = (s, in_ = document) => [...in_.querySelectorAll(s)];
  const say = (text) => { $("#said").textContent = text; };
  const press = (s) => { $(s)?.click(); return !!$(s); };

  // In lists the keys move between the first links of rows, or their folds.
  const rows = () => all("[data-list] > *").filter((r) => !r.matches(".of") && $("a", r));
  const move = (by) => {
    const list = rows();
    if (!list.length) return false;
    const at = list.findIndex((r) => r.contains(document.activeElement));
    const to = list[at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.max(0, Math.min(list.length - 1, at + by))];
    $("a, summary", to).focus();
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
  const write = (f) => { if (f) { all(".more", f.form).forEach((m) => { m.open = true; }); f.focus(); } return !!f; };
  // A key that comes just after a new page was meant for the definition on the last page.
  const arm = () => { delete document.body.dataset.armed; setTimeout(() => { document.body.dataset.armed = ""; }, 600); };
  addEventListener("pageshow", arm);
  const approve = () => {
    if (!("armed" in document.body.dataset)) {
      say("Nothing was decided: the page is new. Press the key again.");
      return true;
    }
    const note = $(said);
    if (note && note.dataset.needed && !note.value.trim()) {
      write(note);
      say(note.dataset.needed);
      return true;
    }
    return press("#decide [value^=approve]");
  };
  // A change is a deletion, an insertion, or a deletion with the insertion that replaces it.
  const changes = () => all("main :is(ins, del)").filter((e) => e.checkVisibility() && (e.matches("del") || e.previousSibling?.nodeName !== "DEL"));
  let change = -1;
  const nextChange = () => {
    const list = changes(), to = list[++change] || list[change = 0];
    if (!to) return false;
    to.tabIndex = -1;
    to.focus({ preventScroll: true });
    to.scrollIntoView({ block: "center" });
    say("Change " + (change + 1) + " of " + list.length);
    return true;
  };
  const help = () => { const d = $("#keys"); if (d && d.showModal) d.open ? d.close() : d.showModal(); return !!d; };
  const keys = {
    a: approve, b: () => press("#decide [value=block]"), n: () => write($(said)),
    s: () => press("[data-go=s]"), u: () => press("button[value=undo]"), x: tick, "]": nextChange, "/": () => focus("[type=search]"), "?": help,
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
    const asks = e.target.closest("[data-asks]")?.dataset.asks;
    if (asks && !$(said).value.trim()) {
      e.preventDefault();
      write($(said));
      say(asks);
    } else if (e.target.closest("[data-next-change]")) nextChange();
    else if (e.target.closest(".tickall")) {
      e.preventDefault();
      const boxes = all("[name=item]");
      boxes.forEach((b) => { b.checked = true; });
      say(boxes.length + " ticked");
    } else if (e.target.closest("[href='#keys']") && help()) e.preventDefault();
  });

  // The tick of a group ticks its rows; without this script, the gateway does.
  document.addEventListener("change", (e) => {
    const box = e.target;
    const group = box.closest("tbody");
    if (box.name === "group") all("[name=item]", group).forEach((b) => { b.checked = box.checked; });
    else if (group && box.name === "item" && !box.checked) all("[name=group]", group).forEach((b) => { b.checked = false; });
  });
  // A folded definition loads when a person opens it, and then counts as viewed.
  document.addEventListener("toggle", (e) => {
    const d = e.target;
    if (d.matches(".fold[open]") && !$(".server", d) && window.htmx) htmx.trigger(d, "unfold");
  }, true);
  const folded = (e) => e.target.closest?.(".fold") || e.detail.elt?.closest?.(".fold");
  const notLoaded = (fold) => {
    const text = "Not loaded, so not viewed. Close it and open it again, or use the link.";
    $(".unfolded", fold).textContent = text;
    say(text);
  };
  // A form in which a person typed stays if there is no answer from the gateway.
  const sent = (e) => e.detail.elt?.closest?.("[data-sent]");
  const notSent = (form, why) => {
    const p = $(".unsent", form) || document.createElement("p");
    p.className = "problem unsent";
    p.role = "alert";
    p.textContent = "Not sent: " + why + ". What you typed is still here. Press the button again later: if the gateway got it after all, it does nothing twice.";
    form.prepend(p);
  };
  for (const name of ["sendError", "timeout"]) document.addEventListener("htmx:" + name, (e) => {
    if (folded(e)) notLoaded(folded(e));
    else if (sent(e)) notSent(sent(e), "the gateway does not answer");
  });
  document.addEventListener("htmx:beforeOnLoad", (e) => {
    const to = e.detail.xhr.getResponseHeader("HX-Redirect");
    if (!to) return;
    e.preventDefault();
    location.assign(new URL(to, e.detail.xhr.responseURL));
  });
  // The answer to a form is a page at another address, to which its links are relative.
  const moved = (text, base) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    for (const name of ["href", "action", "formaction", "hx-get", "hx-post"])
      all("#main [" + name + "]:not([href^='#'])", page).forEach((x) => x.setAttribute(name, new URL(x.getAttribute(name), base)));
    return $("#main", page) && page.documentElement.outerHTML;
  };

  const poll = () => { if (!document.hidden && $("[data-poll]") && window.htmx) htmx.trigger("[data-poll]", "poll"); };
  let waited = 0; // seconds since the last poll
  setInterval(() => { if (++waited >= (+$("[data-poll]")?.dataset.poll || 20)) { waited = 0; poll(); } }, 1000);
  document.addEventListener("visibilitychange", poll);

  const ready = () => {
    if (navigator.clipboard) all("[data-copy]").forEach((b) => { b.hidden = false; });
    if (changes().length > 1) all("[data-next-change]").forEach((b) => { b.hidden = false; });
    if (document.activeElement === document.body) focus("[autofocus]");
  };
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
    const fold = folded(e);
    if (fold) {
      const has = !d.isError && d.serverResponse.includes('id="fold"');
      d.shouldSwap = has;
      if (!has) notLoaded(fold);
      else say("The text is loaded.") || all(".unread, .viewed", $("summary", fold)).forEach((m) => { m.hidden = m.matches(".unread"); });
      return;
    }
    if (sent(e)) {
      if (d.xhr.status === 401) all(".top > :not(.brand), footer").forEach((x) => x.remove()); // as on the page of the sign-in
      const page = moved(d.serverResponse, d.xhr.responseURL);
      if (d.shouldSwap = !!page) d.serverResponse = page;
      else notSent(sent(e), "the gateway does not answer as it should (status " + d.xhr.status + ")");
      d.isError = false;
      return;
    }
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
  document.addEventListener("htmx:afterSettle", (e) => {
    if (e.target.id === "main") {
      arm();
      ready();
    }
    if (held && document.activeElement === document.body) all("main a").find((a) => a.getAttribute("href") === held)?.focus();
    const said = $("[data-say]"), title = $("[data-title]");
    if (said) say(said.dataset.say);
    if (title) document.title = title.dataset.title;
  });
  ready();
})();
