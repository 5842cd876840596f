// What has the focus.

/** The element with the focus in the tree of `node`, the page's or that of a shadow root; null: none there has it. */
export function focusedIn(node: Node): Element | null {
  const root = node.getRootNode();
  return root instanceof Document || root instanceof ShadowRoot ? root.activeElement : null;
}
