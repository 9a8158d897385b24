// The page of `samekind serve`: no framework, no build step, nothing from other hosts.

const SHOWN_REGIONS = 8; // for and against, the strongest of each
const SENDABLE = ["image/jpeg", "image/png", "image/x-portable-graymap", "image/x-portable-pixmap"];
const SVG = "http://www.w3.org/2000/svg";

const $ = (id) => document.getElementById(id);
let info = null;

class ApiError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** Make an element: tag, attributes, children (texts or elements). */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const short = (number) => (number === null ? "–" : Number(number).toPrecision(4).replace(/\.?0+$/, ""));
/** What is not certain is not called 100 % or 0 %. */
function percent(share) {
  if (share < 1 && share > 0.9999) return "over 99.99 %";
  if (share > 0 && share < 0.0001) return "under 0.01 %";
  return `${(100 * share).toFixed(share > 0.995 || share < 0.005 ? 2 : 1).replace(/\.0+$/, "")} %`;
}

/** Call the service; a busy one is asked again a few times. */
async function call(method, path, { json, body, type, headers = {} } = {}) {
  for (let attempt = 0; ; attempt++) {
    let answer;
    try {
      answer = await fetch(path, {
        method,
        headers: { ...headers, ...(json ? { "Content-Type": "application/json" } : type ? { "Content-Type": type } : {}) },
        body: json ? JSON.stringify(json) : body,
      });
    } catch {
      $("lost").hidden = false;
      throw new ApiError("lost", "The service does not answer.");
    }
    $("lost").hidden = true;
    if (answer.status === 429 && attempt < 4) {
      await wait(1000 * Number(answer.headers.get("Retry-After") || 1));
      continue;
    }
    if (answer.status === 401) showSignIn();
    if (answer.ok) return answer.status === 204 ? null : answer.json();
    const { error } = await answer.json().catch(() => ({ error: { code: "failed", message: `The service answered ${answer.status}.` } }));
    throw new ApiError(error.code, error.message);
  }
}

/** A place for one picture: dropped, pasted, chosen or photographed. */
class Slot {
  constructor(root, name, what, changed) {
    root.append($("slot-template").content.cloneNode(true));
    this.root = root;
    this.name = name;
    this.what = what;
    this.changed = changed;
    this.part = (selector) => root.querySelector(selector);
    this.part(".what").textContent = what;
    this.part(".choose").setAttribute("aria-label", `Choose ${what.toLowerCase()}`);
    this.part(".photograph").setAttribute("aria-label", `Photograph ${what.toLowerCase()}`);
    this.part(".clear").setAttribute("aria-label", `Clear ${what.toLowerCase()}`);
    this.part(".file").setAttribute("aria-label", what);
    this.part(".camera").setAttribute("aria-label", `${what}, by camera`);
    this.part(".choose").addEventListener("click", () => this.part(".file").click());
    this.part(".photograph").addEventListener("click", () => photograph(this));
    this.part(".clear").addEventListener("click", () => { this.clear(); this.part(".choose").focus(); });
    for (const input of root.querySelectorAll("input[type=file]")) {
      input.addEventListener("change", () => { if (input.files[0]) this.take(input.files[0]); input.value = ""; });
    }
    const drop = this.part(".drop");
    drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (event) => {
      event.preventDefault();
      drop.classList.remove("over");
      const file = event.dataTransfer.files[0];
      if (file) this.take(file);
      else this.refuse("Drop a picture file. What was dropped is none.");
    });
    this.clear(false);
  }

  get ready() { return this.picture !== null; }
  get chosen() { return { picture: this.picture, face: this.face }; }

  clear(tell = true) {
    this.blob = this.picture = null;
    this.face = 0;
    this.turn = (this.turn || 0) + 1;
    this.show(null);
    this.part(".drop").classList.remove("busy");
    this.refuse("");
    this.part(".faces").hidden = true;
    if (tell) this.changed();
  }

  async take(file) {
    this.clear();
    const turn = this.turn;
    this.part(".drop").classList.add("busy");
    try {
      const blob = await sendable(file);
      if (turn !== this.turn) return;
      this.blob = blob;
      this.show(URL.createObjectURL(blob));
      await this.send();
      if (turn === this.turn) this.changed();
    } catch (error) {
      if (turn === this.turn) this.refuse(error.code === "unusable_picture" ? `${error.message} Choose another picture.` : error.message);
    } finally {
      if (turn === this.turn) this.part(".drop").classList.remove("busy"); // another picture may be under way
    }
  }

  /** Send it, or send it again where the service has let it go. */
  async send() {
    const turn = this.turn;
    const made = await call("POST", "/api/pictures", { body: this.blob, type: this.blob.type || "application/octet-stream" });
    if (turn !== this.turn) return;
    this.picture = made.picture;
    if (this.part(".shown").hidden) { // the browser does not show it
      this.part(".shown").src = this.crop();
      this.uncover(true);
    }
    this.offerFaces(made.faces);
    this.part(".shown").alt = `${this.what}, ${made.width} by ${made.height} pixels`;
    if (made.notes.length) this.refuse(made.notes.join(" "));
  }

  offerFaces(n) {
    const list = this.part(".faces");
    list.hidden = n < 2;
    list.replaceChildren(make("legend", {}, `${n} faces were found: choose one`));
    for (let face = 0; face < n && n > 1; face++) {
      const input = make("input", {
        type: "radio", name: `face-${this.name}`, value: face,
        onchange: () => { this.face = face; this.changed(); },
      });
      input.checked = face === this.face;
      list.append(make("label", {}, make("img", { src: this.crop(face), alt: `Face ${face + 1}` }), input));
    }
  }

  crop(face = this.face) { return `/api/pictures/${this.picture}/crops/${face}`; }

  show(url) {
    const shown = this.part(".shown");
    if (shown.src.startsWith("blob:")) URL.revokeObjectURL(shown.src);
    shown.onerror = () => { // a kind of picture that the browser does not show, or none at all
      if (!shown.src.startsWith("blob:")) return;
      if (this.picture) shown.src = this.crop();
      else this.uncover(false);
    };
    if (url) shown.src = url;
    else shown.removeAttribute("src");
    shown.alt = ""; // until its size is known
    this.uncover(Boolean(url));
    this.part(".clear").hidden = !url;
  }

  /** The picture, or the words that ask for one. */
  uncover(picture) {
    this.part(".shown").hidden = !picture;
    this.part(".empty").hidden = picture;
  }

  refuse(message) { this.part(".problem").textContent = message; }
}

/** A file as the service takes it; other kinds that the browser can show are made PNG. */
async function sendable(file) {
  // A picture may be chosen before the service has said what it takes.
  info ||= await call("GET", "/api/info");
  const most = info.limits.upload_bytes;
  const megabytes = (n) => `${(n / 1e6).toFixed(1)} MB`;
  if (file.size > most) {
    throw new Error(`This file has ${megabytes(file.size)}, and at most ${megabytes(most)} are taken. Choose a smaller picture.`);
  }
  if (file.type && !file.type.startsWith("image/")) {
    throw new Error(`${file.name || "This file"} is no picture. Choose a picture, such as a JPEG or PNG file.`);
  }
  if (SENDABLE.includes(file.type) || !file.type) return file;
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    return file; // the service says what is wrong with it
  }
  const canvas = make("canvas", { width: bitmap.width, height: bitmap.height });
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** By the camera of this device, or by whatever the browser offers in its place. */
async function photograph(slot) {
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "user" } });
  } catch {
    slot.part(".camera").click();
    return;
  }
  const video = make("video", { autoplay: true, playsinline: true, muted: true, width: 320 });
  video.muted = true;
  video.srcObject = stream;
  const dialog = make("dialog", { "aria-label": `Photograph ${slot.what.toLowerCase()}` }, video, make("div", { class: "buttons" },
    make("button", { type: "button", onclick: () => {
      const canvas = make("canvas", { width: video.videoWidth, height: video.videoHeight });
      canvas.getContext("2d").drawImage(video, 0, 0);
      canvas.toBlob((blob) => slot.take(blob), "image/png");
      dialog.close();
    } }, "Take the picture"),
    make("button", { type: "button", onclick: () => dialog.close() }, "Cancel")));
  dialog.addEventListener("close", () => { stream.getTracks().forEach((track) => track.stop()); dialog.remove(); });
  document.body.append(dialog);
  dialog.showModal();
}

/** A call that names pictures; those that the service has let go are sent again. */
async function withPictures(slots, ask) {
  try {
    return await ask();
  } catch (error) {
    if (error.code !== "no_such_picture") throw error;
    for (const slot of slots) await slot.send();
    return ask();
  }
}

let comparing = 0;
async function compare() {
  const turn = ++comparing;
  const verdict = $("verdict");
  verdict.replaceChildren();
  if (!slots.a.ready || !slots.b.ready) return;
  const pair = () => ({ a: slots.a.picture, a_face: slots.a.face, b: slots.b.picture, b_face: slots.b.face });
  try {
    const answer = await withPictures([slots.a, slots.b], () => call("POST", "/api/verify", { json: pair() }));
    if (turn !== comparing) return;
    verdict.append(...answered(answer));
    const why = await withPictures([slots.a, slots.b], () => call("POST", "/api/explain", { json: pair() }));
    if (turn === comparing) verdict.append(explained(why));
    refreshFigures();
  } catch (error) {
    if (turn === comparing) verdict.replaceChildren(make("p", { class: "notice" }, error.message));
  }
}

function answered(answer) {
  const word = answer.same === null ? "No threshold" : answer.same ? "Same" : "Different";
  const parts = [make("strong", { class: answer.same ? "same" : "different" }, word)];
  if (answer.probability !== null) {
    parts.push(make("span", {}, `${percent(answer.probability)} that they are the same, if ${percent(answer.prior)} of such pairs are`));
  }
  const rate = answer.false_match_rate;
  const meaning = rate === null ? "" : ` About ${percent(rate)} of different pairs are within the threshold.`;
  const elements = [make("p", { class: "answer" }, ...parts)];
  elements.push(make("p", { class: "quiet" }, `Distance ${short(answer.distance)}, threshold ${short(answer.threshold)}.${meaning}`));
  if (info.distribution) elements.push(distribution(info.distribution, answer));
  return elements;
}

/** Where the distance lies among those of pairs of both kinds. */
function distribution(shares, answer) {
  const [width, height, foot, head] = [640, 200, 50, 22];
  const [low, high] = [shares.edges[0], shares.edges.at(-1)];
  const x = (d) => 8 + (width - 16) * Math.min(1, Math.max(0, (d - low) / (high - low)));
  const tallest = Math.max(...shares.same, ...shares.other);
  const y = (share) => (height - foot - head) * (share / tallest);
  const picture = draw("svg", { class: "drawing", viewBox: `0 0 ${width} ${height}`, role: "img" });
  const label = `Distance ${short(answer.distance)}, threshold ${short(answer.threshold)}, among distances from ${short(low)} to ${short(high)}`;
  picture.setAttribute("aria-label", label);
  for (const kind of ["other", "same"]) {
    shares[kind].forEach((share, place) => {
      const [left, right] = [x(shares.edges[place]), x(shares.edges[place + 1])];
      picture.append(draw("rect", { class: `bar-${kind}`, x: left, y: height - foot - y(share), width: Math.max(0, right - left - 1), height: y(share) }));
    });
  }
  picture.append(draw("line", { class: "axis", x1: 0, x2: width, y1: height - foot, y2: height - foot }));
  const mark = (kind, d, text, at) => {
    picture.append(draw("line", { class: kind, x1: x(d), x2: x(d), y1: at === "top" ? head - 6 : head, y2: height - foot + (at === "top" ? 0 : 6) }));
    const anchor = x(d) < 90 ? "start" : x(d) > width - 90 ? "end" : "middle";
    picture.append(draw("text", { class: `${kind}-text`, x: x(d), y: at === "top" ? 12 : height - foot + 23, "text-anchor": anchor }, text));
  };
  if (answer.threshold !== null) mark("limit", answer.threshold, "threshold", "bottom");
  mark("here", answer.distance, "this pair", "top");
  picture.append(draw("text", { x: 8, y: height - 4 }, "near"), draw("text", { x: width - 8, y: height - 4, "text-anchor": "end" }, "far apart"));
  const whose = shares.source === "gallery" ? "of the gallery's entries" : "as the model's calibration has them, roughly";
  return make("figure", {}, picture, make("figcaption", {},
    make("span", { class: "same" }, "■ pairs of one kind"), "  ", make("span", { class: "different" }, "■ pairs of different kinds"), `, ${whose}`));
}

/** Both crops with the regions that spoke, and a list of them. */
function explained(why) {
  const strongest = (sign) => why.regions.filter((region) => Math.sign(region.evidence) === sign).slice(0, SHOWN_REGIONS);
  const regions = [...strongest(1), ...strongest(-1)].sort((p, q) => Math.abs(q.evidence) - Math.abs(p.evidence));
  const kind = (region) => (region.evidence > 0 ? "for" : "against");
  const rectangles = [];
  const crop = (slot) => {
    const cover = draw("svg", { viewBox: `0 0 ${why.crop.width} ${why.crop.height}`, "aria-hidden": "true", preserveAspectRatio: "none" });
    regions.forEach((region, place) => {
      if (!region.rectangle) return;
      const [top, left, height, width] = region.rectangle;
      const [across, down] = why.crop.margin;
      const rect = draw("rect", { class: kind(region), x: left + across, y: top + down, width, height });
      (rectangles[place] ||= []).push(rect);
      cover.append(rect);
    });
    return make("div", { class: "crop" }, make("img", { src: slot.crop(), alt: `What the model sees of ${slot.what.toLowerCase()}` }), cover);
  };
  const light = (chosen) => rectangles.forEach((both, place) => both.forEach((rect) => {
    rect.classList.toggle("chosen", place === chosen);
    rect.classList.toggle("faded", chosen !== null && place !== chosen);
  }));
  const list = make("ol", { class: "regions", "aria-label": "Regions, the strongest first" }, ...regions.map((region, place) =>
    make("li", {}, make("button", {
      type: "button", class: kind(region),
      onmouseenter: () => light(place), onmouseleave: () => light(null), onfocus: () => light(place), onblur: () => light(null),
    }, make("span", {}, region.group), make("span", {}, `${kind(region)} ${short(Math.abs(region.evidence))}`)))));
  return make("section", { "aria-labelledby": "why-title" },
    make("h2", { id: "why-title" }, "Why"),
    make("p", {}, why.in_words),
    make("div", { class: "why" }, crop(slots.a), crop(slots.b), list),
    make("p", { class: "quiet" }, `Shown are the strongest of ${why.n_regions} regions; solid speaks for “same”, dashed against it. All of them sum to the distance.`));
}

const counted = (n, one, several) => `${n.toLocaleString("en")} ${n === 1 ? one : several}`;

/** What was searched, and what the probabilities and the threshold mean. */
function searchedInWords(answer) {
  const lines = [`Searched: ${counted(answer.searched, "entry", "entries")} of ${counted(answer.people, "person", "people")}.`];
  if (answer.hits.some((each) => each.probability !== null)) {
    lines[0] += ` Probabilities: if ${percent(answer.prior)} of such pairs are the same.`;
  }
  if (answer.false_match_in_words) lines.push(`Threshold ${short(answer.threshold)}: ${answer.false_match_in_words}.`);
  return lines;
}

let searching = 0;
async function search() {
  const turn = ++searching;
  const hits = $("hits");
  $("add-form").hidden = !slots.query.ready;
  hits.replaceChildren();
  if (!slots.query.ready) return;
  try {
    const answer = await withPictures([slots.query], () => call("POST", "/api/search", { json: { ...slots.query.chosen, k: 12 } }));
    if (turn !== searching) return;
    hits.append(make("h2", {}, "Nearest entries"));
    if (answer.hits.length) hits.append(make("ol", { class: "hits" }, ...answer.hits.map(hit)));
    else hits.append(make("p", { class: "notice" }, "The gallery is empty. Give this picture a label and add it."));
    hits.append(...searchedInWords(answer).map((line) => make("p", { class: "quiet" }, line)));
    refreshFigures();
  } catch (error) {
    if (turn === searching) hits.replaceChildren(make("p", { class: "notice" }, error.message));
  }
}

const calledBy = (entry) => entry.label || entry.name || `entry ${entry.id}`;

function thumbnailOf(entry) {
  const image = make("img", { src: `/api/entries/${entry.id}/thumbnail`, alt: `Entry ${calledBy(entry)}`, loading: "lazy" });
  image.addEventListener("error", () => image.replaceWith(make("div", { class: "no-picture" }, "no thumbnail")));
  return image;
}

function hit(entry) {
  const called = calledBy(entry);
  const thumbnail = thumbnailOf(entry);
  let sure = false;
  const remove = make("button", { type: "button", "aria-label": `Remove ${called}, entry ${entry.id}`, onclick: async () => {
    if (!sure) {
      sure = true;
      remove.textContent = "Really erase it?";
      remove.setAttribute("aria-label", `Really erase ${called}, entry ${entry.id}?`);
      return;
    }
    remove.disabled = true;
    try {
      const removal = await call("DELETE", `/api/entries/${entry.id}`);
      $("change").replaceChildren(...removal.in_words.map((line) => make("p", {}, line)));
    } catch (error) {
      $("change").replaceChildren(make("p", { class: "notice" }, error.message));
    }
    search();
  }, onblur: () => { sure = false; remove.textContent = "Remove"; } }, "Remove");
  const probability = entry.probability === null ? "" : `Same: ${percent(entry.probability)}; `;
  return make("li", { class: entry.same ? "within" : null },
    thumbnail, make("span", { class: "name" }, called),
    make("span", { class: "quiet" }, `${probability}distance ${short(entry.distance)}${entry.same ? ", within the threshold" : ""}`), remove);
}

async function addEntry(event) {
  event.preventDefault();
  const label = $("label").value.trim();
  try {
    const entry = await withPictures([slots.query], () => call("POST", "/api/entries", { json: { ...slots.query.chosen, label: label || null } }));
    $("change").replaceChildren(make("p", {}, `Added as entry ${entry.id}${entry.label ? `, ${entry.label}` : ""}.`));
    $("label").value = "";
  } catch (error) {
    $("change").replaceChildren(make("p", { class: "notice" }, error.message));
  }
  search();
}

/** What the doctor found, each with what to do about it. */
async function examine() {
  const button = $("examine");
  button.disabled = true;
  $("findings").replaceChildren(make("p", { class: "quiet" }, "Comparing all entries …"));
  try {
    const found = await call("POST", "/api/doctor", { json: {} });
    const shown = findingsOf(found).filter((each) => !localStorage.getItem(each.key));
    const none = "Nothing looks wrong, or all of it was dismissed.";
    $("findings").replaceChildren(...(shown.length ? shown.map(finding) : [make("p", {}, none)]));
  } catch (error) {
    $("findings").replaceChildren(make("p", { class: "notice" }, error.message));
  }
  button.disabled = false;
}

function findingsOf({ duplicates, same, mixed, outliers }) {
  const ids = (records) => records.map((record) => record.id);
  const relabel = (records, label) => call("POST", "/api/relabel", { json: { ids: ids(records), label } });
  const remove = async (records) => { for (const id of ids(records)) await call("DELETE", `/api/entries/${id}`); };
  const made = [];
  for (const { records } of duplicates) {
    made.push({ title: "The same picture twice?", records, confirm: [["Keep the first, erase the others", () => remove(records.slice(1))]] });
  }
  for (const { labels, sizes, nearest } of same) {
    const [kept, given] = sizes[0] < sizes[1] ? [labels[1], labels[0]] : labels;
    made.push({ title: `One kind under two labels: ${labels.join(" and ")}?`, records: nearest,
      confirm: [[`Label all of them ${kept}`, () => call("POST", "/api/rename", { json: { old: given, new: kept } })]] });
  }
  for (const { label, groups } of mixed) {
    const others = groups.slice(1);
    made.push({ title: `Several kinds under the label ${label}?`, records: groups.map((group) => group[0]),
      confirm: [["Label the smaller groups anew", async () => { for (const [place, group] of others.entries()) await relabel(group, `${label} (${place + 2})`); }]] });
  }
  for (const { record, nearest } of outliers) {
    const choices = nearest?.label && nearest.label !== record.label ? [[`Label it ${nearest.label}`, () => relabel([record], nearest.label)]] : [];
    made.push({ title: `Does this belong to ${calledBy(record)}?`, records: nearest ? [record, nearest] : [record],
      confirm: [...choices, ["Erase it", () => remove([record])]] });
  }
  return made.map((each) => ({ ...each, key: `dismissed ${info.gallery.name} ${each.title} ${ids(each.records)}` }));
}

function finding({ title, records, confirm, key }) {
  const done = (message) => {
    $("corrected").replaceChildren(make("p", {}, message));
    box.remove();
    $("examine").focus();
    refreshFigures();
  };
  const choices = confirm.map(([words, act]) => make("button", { type: "button", onclick: async (event) => {
    event.target.disabled = true;
    try {
      await act();
      done(`Done: ${words.toLowerCase()}.`);
    } catch (error) {
      done(error.message);
    }
  } }, words));
  const dismiss = make("button", { type: "button", onclick: () => {
    localStorage.setItem(key, "yes");
    done("Dismissed: it will not be shown again in this browser.");
  } }, "Dismiss");
  const box = make("article", { class: "finding" }, make("h2", {}, title),
    make("ul", {}, ...records.map((record) => make("li", {}, thumbnailOf(record), make("span", {}, `${calledBy(record)}, entry ${record.id}`)))),
    make("div", { class: "buttons" }, ...choices, dismiss));
  return box;
}

function selectTab(name, focus = false) {
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const selected = tab.getAttribute("aria-controls") === name;
    tab.setAttribute("aria-selected", selected);
    tab.tabIndex = selected ? 0 : -1;
    $(tab.getAttribute("aria-controls")).hidden = !selected;
    if (selected && focus) tab.focus();
  }
}

async function refreshFigures() {
  try {
    info = await call("GET", "/api/info");
  } catch {
    return false;
  }
  const { model, gallery, timings } = info;
  $("served").textContent = gallery
    ? `${gallery.entries.toLocaleString("en")} entries of ${gallery.labels.toLocaleString("en")} labels in ${gallery.name}`
    : "no gallery";
  const took = Object.entries(timings).map(([kind, { median }]) => `${kind} ${median} ms`);
  $("figures").textContent = `samekind ${info.samekind}, ${model.n_regions} regions, codes of ${model.n_components} numbers.` +
    (took.length ? ` Median times: ${took.join(", ")}.` : "");
  for (const notice of document.querySelectorAll(".no-gallery")) notice.hidden = Boolean(gallery);
  for (const part of document.querySelectorAll(".with-gallery")) part.hidden = !gallery;
  return true;
}

function showSignIn() {
  $("work").hidden = true;
  $("sign-in").hidden = false;
  $("served").textContent = "";
}

async function start() {
  if (!await refreshFigures()) {
    if ($("sign-in").hidden) $("work").hidden = false;
    if (!info) $("served").textContent = "";
    return;
  }
  $("sign-in").hidden = true;
  $("work").hidden = false;
  goOn();
}

/** What the service did not answer while it was gone. */
function goOn() {
  for (const slot of Object.values(slots)) if (slot.blob && !slot.ready) slot.take(slot.blob);
  if ($("verdict").querySelector(".notice")) compare();
  if ($("hits").querySelector(".notice")) search();
}

const slots = {
  a: new Slot(document.querySelector("[data-slot=a]"), "a", "First picture", compare),
  b: new Slot(document.querySelector("[data-slot=b]"), "b", "Second picture", compare),
  query: new Slot(document.querySelector("[data-slot=query]"), "query", "Picture to look for", search),
};

$("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  $("sign-in-problem").textContent = "";
  try {
    await call("POST", "/session", { headers: { Authorization: `Bearer ${$("token").value.trim()}` } });
    $("token").value = "";
    start();
  } catch (error) {
    $("sign-in-problem").textContent = error.code === "unauthorised" ? "This is not the token. Copy the one that samekind serve printed last." : error.message;
  }
});
$("retry").addEventListener("click", () => start());
$("examine").addEventListener("click", examine);
$("add-form").addEventListener("submit", addEntry);
for (const tab of document.querySelectorAll("[role=tab]")) {
  tab.addEventListener("click", () => selectTab(tab.getAttribute("aria-controls")));
  tab.addEventListener("keydown", (event) => {
    if (!["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
    const tabs = [...document.querySelectorAll("[role=tab]")];
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const next = step ? (tabs.indexOf(tab) + step + tabs.length) % tabs.length : event.key === "Home" ? 0 : tabs.length - 1;
    selectTab(tabs[next].getAttribute("aria-controls"), true);
  });
}
// A picture that is dropped beside a slot must not replace the page.
for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());
document.addEventListener("paste", (event) => {
  const file = [...event.clipboardData.files].find((each) => each.type.startsWith("image/"));
  if (!file) return;
  const within = Object.values(slots).find((slot) => slot.root.contains(document.activeElement));
  const open = $("compare").hidden ? slots.query : !slots.a.ready ? slots.a : slots.b;
  (within || open).take(file);
});
start();
