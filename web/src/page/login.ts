// The log-in form.

import { make, setText } from "../views/dom.ts";

/** Asks for a token. */
export class LogIn {
  readonly element: HTMLElement;
  private readonly refusal: HTMLElement;
  private readonly field: HTMLInputElement;
  private readonly submit: HTMLButtonElement;

  /** @param enter is called with the token that the user has entered */
  constructor(enter: (token: string | undefined) => void) {
    this.refusal = make("p", { class: "refusal", attributes: { role: "alert", id: "refusal" } });
    this.field = make("input", {
      attributes: { id: "token", type: "password", autocomplete: "off", spellcheck: "false", "aria-describedby": "refusal" },
    });
    this.submit = make("button", { class: "main", text: "Log in" });
    this.submit.type = "submit";
    const form = make(
      "form", {},
      make("h1", { text: "Log in" }),
      make("p", { class: "muted", text: "Who runs the server has the token; in a terminal it printed a link with it. It is kept until this tab is closed." }),
      make("label", { text: "Token", attributes: { for: "token" } }),
      this.field, this.refusal, this.submit,
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit.disabled = true;
      enter(this.field.value === "" ? undefined : this.field.value);
    });
    this.element = make("main", { class: "log-in" }, form);
  }

  /** Shows why the server has refused a token; undefined: none has been entered. The field is empty again. */
  refused(text: string | undefined): void {
    setText(this.refusal, text ?? "");
    this.submit.disabled = false;
    this.field.value = "";
  }

  focus(): void {
    this.field.focus();
  }
}
