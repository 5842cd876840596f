// Stands in until the bundle of web/src/notebook is built.
export default { render({ el }) { el.textContent = "The widget is not built."; } };
