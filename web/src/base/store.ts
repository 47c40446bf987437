// What this browser remembers for the reader: theme, columns, widths. Never what others could see.

export function recall<T>(key: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(`cairn:${key}`);
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise;
  }
}

export function remember(key: string, what: unknown): void {
  try {
    localStorage.setItem(`cairn:${key}`, JSON.stringify(what));
  } catch {
    // A browser that keeps nothing still shows everything.
  }
}
