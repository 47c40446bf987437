// Keyboard shortcuts. A page registers its own while it is shown; what somebody types into a field
// is never a shortcut.

type Handler = (e: KeyboardEvent) => boolean | void;

const handlers: Handler[] = [];

export function onKey(h: Handler): () => void {
  handlers.unshift(h);
  return () => {
    const i = handlers.indexOf(h);
    if (i >= 0) handlers.splice(i, 1);
  };
}

export const typing = (e: Event) => {
  const t = e.target as HTMLElement | null;
  return !!t && (t.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(t.tagName));
};

export function listen(): void {
  document.addEventListener('keydown', (e) => {
    if (e.defaultPrevented || (e.altKey && !e.ctrlKey)) return;
    for (const h of [...handlers])
      if (h(e)) {
        e.preventDefault();
        return;
      }
  });
}
