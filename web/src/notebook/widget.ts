// The widget: an anywidget module.

import type { Model } from "./comm.ts";
import { Display } from "./display.ts";

/** Shows the widget in `el`; the result ends that. */
function render({ model, el }: { readonly model: Model; readonly el: HTMLElement }): () => void {
  const display = new Display(model, el);
  return () => display.close();
}

export default { render };
