// The state of the page is its address: `#/path/to/view?setting=value`. Links reproduce a view.

/** Return the path and settings of the current address. */
export function address() {
  const [path, ...rest] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts, query: new URLSearchParams(rest.join("?")) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Return the address of a view; settings without a value are left out. */
export function to(parts, settings = {}) {
  const query = new URLSearchParams(Object.entries(settings).filter(([, value]) => value !== undefined && value !== null && value !== ""));
  const path = parts.map(encodeURIComponent).join("/");
  return `#/${path}${query.size ? `?${query}` : ""}`;
}

/** Go to a view. */
export const go = (parts, settings) => {
  location.hash = to(parts, settings);
};

/** Change the address without leaving the view. */
export const remember = (parts, settings) => history.replaceState(null, "", to(parts, settings));
