// The chat page: streams /v1/chat/completions and shows the engine's own figures under each answer. The conversation
// lives in this tab (sessionStorage); settings, the key included, too.
"use strict";

const $ = (id) => document.getElementById(id);
const log = $("log");
let history = [];      // {role, content} in the order of the conversation
let running = null;    // the AbortController of the answer that is being written
let model = null;
let chat = 0;          // grows with "New chat": an answer of an earlier chat is dropped

const settings = ["system", "temperature", "top-p", "max-tokens", "key"];

function load() {
  for (const name of settings) {
    const value = sessionStorage.getItem("headrace." + name);
    if (value !== null) $(name).value = value;
    $(name).addEventListener("change", () => {
      sessionStorage.setItem("headrace." + name, $(name).value);
      if (name === "key") find_model();
    });
  }
  try {
    history = JSON.parse(sessionStorage.getItem("headrace.history")) || [];
  } catch {
    history = [];
  }
  for (const { role, content, figures } of history) show(role, content, figures);
}

function save() {
  try {
    sessionStorage.setItem("headrace.history", JSON.stringify(history));
  } catch {
    // A conversation beyond the storage's size is kept in memory alone.
  }
}

function headers() {
  const key = $("key").value.trim();
  return key ? { "Content-Type": "application/json", Authorization: "Bearer " + key } : { "Content-Type": "application/json" };
}

async function find_model() {
  try {
    const answer = await fetch("/v1/models", { headers: headers() });
    const body = await answer.json();
    if (!answer.ok) {
      $("model").textContent = answer.status === 401 ? "API key needed" : body.error.message;
      if (answer.status === 401) toggle_settings(true);
      return;
    }
    model = body.data[0].id;
    $("model").textContent = model;
    document.title = model + " · Headrace";
  } catch {
    $("model").textContent = "server not reached";
  }
}

function toggle_settings(open) {
  $("settings").hidden = !open;
  $("settings-toggle").setAttribute("aria-expanded", String(open));
}

// Code fences, `code`, **strong** and *emphasis* become elements; everything stays text, never HTML.
const inline = [
  [/^`([^`\n]+)`$/, "code"],
  [/^\*\*([^*\n]+)\*\*$/, "strong"],
  [/^\*([^*\s][^*\n]*)\*$/, "em"],
];

function render(target, text) {
  target.replaceChildren();
  text.split("```").forEach((part, i, parts) => {
    if (i % 2 === 1) {
      const code = add(add(target, "pre", ""), "code", "");
      code.textContent = part.replace(/^[^\n]*\n/, "").replace(/\n$/, "");
      return;
    }
    // The fence's own margins stand for the line ends around it.
    if (i > 0) part = part.replace(/^\n+/, "");
    if (i < parts.length - 1) part = part.replace(/\n+$/, "");
    for (const piece of part.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*|\*[^*\s][^*\n]*\*)/)) {
      const [pattern, tag] = inline.find(([each]) => each.test(piece)) || [];
      if (tag) add(target, tag, "", piece.match(pattern)[1]);
      else target.append(piece);
    }
  });
}

function add(parent, tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function show(role, content, figures) {
  $("welcome").hidden = true;
  const message = add(log, "article", "message " + role);
  render(add(message, "div", "text"), content);
  if (figures) show_figures(message, figures);
  return message;
}

function show_figures(message, figures) {
  const line = add(message, "div", "figures");
  const put = (label, value) => {
    const item = add(line, "span", "", label + " ");
    add(item, "b", "", value);
  };
  put("TTFT", figures.ttft.toFixed(0) + " ms");
  if (figures.tpot > 0) put("TPOT", figures.tpot.toFixed(1) + " ms");
  put("speed", figures.speed.toFixed(1) + " tokens/s");
  put("tokens", figures.prompt ? figures.prompt + " + " + figures.completion : figures.completion);
  if (figures.finish && figures.finish !== "stop") put("ended by", figures.finish === "length" ? "length limit" : figures.finish);
}

const near_end = () => window.innerHeight + window.scrollY > document.body.scrollHeight - 120;
const to_end = () => window.scrollTo(0, document.body.scrollHeight);

function set_running(controller) {
  running = controller;
  $("send").hidden = controller !== null;
  $("stop").hidden = controller === null;
}

// The JSON objects of a stream of server-sent events.
async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const data = block.replace(/^data: /, "");
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
}

function request_body() {
  const messages = history.map(({ role, content }) => ({ role, content }));
  const system = $("system").value.trim();
  if (system) messages.unshift({ role: "system", content: system });
  const body = { model, messages, stream: true, stream_options: { include_usage: true } };
  if ($("temperature").value !== "") body.temperature = Number($("temperature").value);
  if ($("top-p").value !== "") body.top_p = Number($("top-p").value);
  if ($("max-tokens").value !== "") body.max_tokens = Number($("max-tokens").value);
  return JSON.stringify(body);
}

async function ask(prompt) {
  if (!model) await find_model();
  history.push({ role: "user", content: prompt });
  show("user", prompt);
  const message = show("assistant", "");
  message.classList.add("running");
  to_end();
  const controller = new AbortController();
  set_running(controller);
  const mine = chat;

  const started = performance.now();
  let first = 0, last = 0, count = 0, text = "", finish = "", usage = null, timings = null, problem = "";
  try {
    const answer = await fetch("/v1/chat/completions", { method: "POST", headers: headers(), body: request_body(), signal: controller.signal });
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    for await (const event of events(answer)) {
      if (event.error) throw new Error(event.error.message);
      if (event.usage) ({ usage, timings = null } = event);
      const choice = event.choices[0];
      if (!choice) continue;
      if (choice.finish_reason) finish = choice.finish_reason;
      if (!choice.delta.content) continue;
      last = performance.now();
      first ||= last;
      ++count;
      text += choice.delta.content;
      const follow = near_end();
      render(message.querySelector(".text"), text);
      if (follow) to_end();
    }
  } catch (error) {
    if (error.name === "AbortError") finish = "you";
    else problem = error.message;
  }

  message.classList.remove("running");
  set_running(null);
  if (mine !== chat) return;
  if (text) {
    // The engine's figures when the stream came to its end, else what this page saw.
    const tpot = count > 1 ? (last - first) / (count - 1) : 0;
    const figures = timings && usage
      ? { ttft: timings.ttft_ms, tpot: timings.tpot_ms, speed: timings.tokens_per_s, prompt: usage.prompt_tokens, completion: usage.completion_tokens, finish }
      : { ttft: first - started, tpot, speed: count / ((last - started) / 1000), prompt: 0, completion: count, finish };
    show_figures(message, figures);
    history.push({ role: "assistant", content: text, figures });
  } else {
    // A question without an answer would confuse the next one.
    history.pop();
    if (!problem && finish !== "you") problem = "The answer was empty.";
  }
  if (problem) add(message, "div", "problem", problem);
  save();
  to_end();
  $("prompt").focus();
}

function submit() {
  const prompt = $("prompt").value.trim();
  if (!prompt || running) return;
  $("prompt").value = "";
  fit();
  ask(prompt);
}

function fit() {
  $("prompt").style.height = "auto";
  $("prompt").style.height = $("prompt").scrollHeight + "px";
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
$("prompt").addEventListener("input", fit);
$("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && running) running.abort();
});
$("stop").addEventListener("click", () => running && running.abort());
$("settings-toggle").addEventListener("click", () => toggle_settings($("settings").hidden));
$("settings").addEventListener("submit", (event) => event.preventDefault());
$("clear").addEventListener("click", () => {
  if (running) running.abort();
  ++chat;
  history = [];
  save();
  for (const message of log.querySelectorAll(".message")) message.remove();
  $("welcome").hidden = false;
  $("prompt").focus();
});
for (const example of $("examples").children) example.addEventListener("click", () => !running && ask(example.textContent));

load();
find_model();
to_end();
