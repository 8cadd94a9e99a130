"use strict";
// After htmx has exchanged a part of the page, say what the part says of itself.
document.addEventListener("htmx:afterSettle", (e) => {
  const say = e.target.querySelector?.("[data-say]");
  if (say) document.getElementById("live").textContent = say.dataset.say;
});
