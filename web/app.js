// The live status of the page: asks /v1/health now and then, and says what the answer means.
(() => {
  const EVERY_MS = 5000;
  const LIMIT_MS = 4000;
  const at = (id) => document.getElementById(id);
  const request = at("request");
  const copy = at("copy");

  const say = (state, text, took) => {
    if (at("status-text").textContent !== text) at("status-text").textContent = text;
    at("status").dataset.state = state;
    at("took").textContent = took === undefined ? "–" : `${Math.max(1, Math.round(took))} ms`;
  };

  const showRequest = (isLocked) => {
    const token = isLocked ? ' -H "Authorization: Bearer $TOKEN"' : "";
    request.textContent = `curl ${location.origin}/v1/health${token}`;
  };

  const ask = async () => {
    const start = performance.now();
    try {
      const answer = await fetch("/v1/health", { cache: "no-store", signal: AbortSignal.timeout(LIMIT_MS) });
      const took = performance.now() - start;
      showRequest(answer.status === 401);
      if (answer.ok) say("good", "Healthy", took);
      else if (answer.status === 401) say("locked", "Running, and asks for a token", took);
      else say("bad", `Answers with status ${answer.status}`, took);
    } catch {
      say("bad", "No answer");
    }
    setTimeout(ask, EVERY_MS);
  };

  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(request.textContent);
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  });

  at("address").textContent = location.origin;
  copy.hidden = !navigator.clipboard;
  showRequest(false);
  ask();
})();
