// The state of the server, live: what it takes, who is behind, and what is near a limit.

import { shownName } from "../grid/names.ts";
import { make, setText } from "../views/dom.ts";
import { bytes, count, duration } from "../views/words.ts";
import type { Health, Use } from "../wire/messages.ts";
import { formatAddress } from "./address.ts";

/** Share of a limit from which it counts as near. */
const NEAR = 0.8;
/** Cycles behind from which a follower is marked, unless it rests. */
const BEHIND = 100;

/** Columns of text: to the left, as in the list of tables; numbers are to the right. */
const TEXTS: ReadonlySet<string> = new Set(["Kind", "Stream", "User", "From", "The client is to", "Operation"]);
/** Characters of a text that may be cut, and is shown whole in its title. */
const LONG = 20;

interface Cell {
  readonly text: string;
  readonly link?: string;
  /** Why it needs a look; undefined: it does not. */
  readonly warning?: string | undefined;
}

export class HealthView {
  readonly element: HTMLElement;
  private readonly summary = make("p", { class: "muted summary", attributes: { role: "status" } });
  private readonly facts = make("dl", { class: "facts" });
  private readonly uses = new Section("Used", ["What", "Now", "Limit", "Share"], "Nothing is counted yet.");
  private readonly tables = new Section("Tables", ["Name", "Kind", "Rows", "Memory", "Followers"], "There are no tables.");
  private readonly followers = new Section("Followers", ["Table", "User", "From", "Cycles behind", "Updates", "Sent", "For"], "No table has followers.");
  private readonly stuck = new Section("Waited for", ["Table", "Stream", "User", "The client is to", "Since"], "Every client keeps up.");
  private readonly computed = new Section("Computed", ["Name", "Operation", "User", "Rows", "Memory", "Processor time"], "No table is computed for clients.");

  constructor() {
    const sections = [this.uses, this.stuck, this.followers, this.tables, this.computed].map(({ element }) => element);
    this.element = make("main", { class: "health" }, make("div", { class: "tables-head" }, make("h1", { text: "Health" }), this.summary), this.facts, ...sections);
  }

  /** `state`: what the server has told, or why it does not; undefined: nothing yet. */
  update(state: Health | string | undefined, live: boolean): void {
    this.element.classList.toggle("stale", !live);
    const told = typeof state === "object";
    for (const part of [this.facts, this.uses.element, this.stuck.element, this.followers.element, this.tables.element, this.computed.element]) part.hidden = !told;
    if (!told) {
      setText(this.summary, state ?? "Asking the server\u2026");
      return;
    }
    const warnings = this.fill(state);
    setText(this.summary, warnings === 0 ? "All is well." : warnings === 1 ? "One thing needs a look; it is marked." : `${count(warnings)} things need a look; they are marked.`);
  }

  /** Returns how many entries are marked. */
  private fill(state: Health): number {
    this.showFacts([
      ["Up for", duration(state.uptime)],
      ["Cycles", count(state.step)],
      ["Memory", state.memory === undefined ? "unknown" : bytes(state.memory)],
      ["Processors in use", state.cores === undefined ? "\u2013" : state.cores.toFixed(2)],
      ["Threads", count(state.threads)],
      ["Clients cut off", count(state.evicted)],
    ]);
    const table = (name: string): Cell => (name === "" ? { text: "\u2013" } : { text: shownName(name), link: formatAddress({ table: name }) });
    return (
      this.uses.fill(state.uses.map((use) => [
        { text: use.name, warning: nearness(use) }, { text: amount(use, use.now) }, { text: use.most === undefined ? "\u2013" : amount(use, use.most) },
        { text: use.most === undefined || use.most === 0 ? "" : `${Math.round((100 * use.now) / use.most)} %` },
      ])) +
      this.stuck.fill(state.stuck.map((one) => [
        { ...table(one.table), warning: one.seconds > 1 ? "The server waits for this client." : undefined }, { text: one.kind }, { text: shownName(one.user) },
        { text: one.awaited.replaceAll("_", " ") }, { text: duration(one.seconds) },
      ])) +
      this.followers.fill(state.followers.map((one) => [
        { ...table(one.table), warning: one.behind > BEHIND && !one.rests ? "This follower is far behind." : undefined }, { text: shownName(one.user) }, { text: one.peer }, { text: one.rests && one.behind > 0 ? `${count(one.behind)}, rests` : count(one.behind) },
        { text: count(one.messages) }, { text: bytes(one.bytes) }, { text: duration(one.open) },
      ])) +
      this.tables.fill(state.tables.map((one) => [
        table(one.name), { text: one.kind }, { text: count(one.rows) }, { text: bytes(one.bytes) }, { text: count(one.followers) },
      ])) +
      this.computed.fill(state.computed.map((one) => [
        { text: shownName(one.name), warning: one.failed ? "This table has failed, and changes no more." : undefined }, { text: one.operation }, { text: shownName(one.user) },
        { text: count(one.rows) }, { text: bytes(one.bytes) }, { text: duration(one.seconds) },
      ]))
    );
  }

  private showFacts(facts: readonly (readonly [name: string, value: string])[]): void {
    if (this.facts.childElementCount !== facts.length) {
      this.facts.replaceChildren(...facts.map(([name]) => make("div", {}, make("dt", { text: name }), make("dd"))));
    }
    facts.forEach(([, value], n) => {
      const shown = this.facts.children[n]?.lastElementChild;
      if (shown instanceof HTMLElement) setText(shown, value);
    });
  }
}

/** A heading with a table whose rows are kept while they are brought up to date. */
class Section {
  readonly element: HTMLElement;
  private readonly body = make("tbody");
  private readonly nothing: HTMLElement;
  private readonly table: HTMLElement;
  /** Of the cells, by column. */
  private readonly classes: readonly string[];

  constructor(title: string, heads: readonly string[], nothing: string) {
    this.classes = heads.map((text, n) => (n === 0 || TEXTS.has(text) ? "" : "number"));
    const head = make("tr", {}, ...heads.map((text, n) => make("th", { text, class: this.classes[n] ?? "", attributes: { scope: "col" } })));
    this.nothing = make("p", { class: "muted", text: nothing });
    this.table = make("table", { class: "list" }, make("thead", {}, head), this.body);
    this.element = make("section", {}, make("h2", { text: title }), this.table, this.nothing);
  }

  /** Returns how many rows are marked. */
  fill(rows: readonly (readonly Cell[])[]): number {
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    this.table.hidden = rows.length === 0;
    this.nothing.hidden = rows.length > 0;
    let marked = 0;
    rows.forEach((cells, n) => {
      const line = this.body.rows[n] ?? this.body.insertRow();
      const warning = cells.find((cell) => cell.warning !== undefined)?.warning;
      if (warning !== undefined) marked += 1;
      line.classList.toggle("warned", warning !== undefined);
      cells.forEach((cell, place) => fillCell(line.cells[place] ?? newCell(line, this.classes[place] ?? ""), cell));
    });
    return marked;
  }
}

function newCell(line: HTMLTableRowElement, name: string): HTMLTableCellElement {
  const cell = line.insertCell();
  cell.className = name;
  return cell;
}

function fillCell(cell: HTMLTableCellElement, { text, link, warning }: Cell): void {
  const shown = warning === undefined ? text : `\u26a0 ${text}`;
  cell.title = warning ?? (text.length > LONG ? text : "");
  const there = cell.firstElementChild;
  if (link === undefined) {
    setText(cell, shown);
    return;
  }
  const anchor = there instanceof HTMLAnchorElement ? there : make("a");
  if (there !== anchor) cell.replaceChildren(anchor);
  if (anchor.getAttribute("href") !== link) anchor.href = link;
  setText(anchor, shown);
}

function nearness({ name, now, most }: Use): string | undefined {
  if (most === undefined || most === 0 || now < NEAR * most) return undefined;
  return now >= most ? `The limit of ${name} is reached.` : `The limit of ${name} is near.`;
}

function amount({ name }: Use, value: number): string {
  return name.endsWith("bytes") ? bytes(value) : count(value);
}
