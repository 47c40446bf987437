// A part of a page that is loaded when it is first shown.

import type { ComponentType } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';
import { Skeleton } from '../parts/bits';

export function lazy<P extends object>(
  load: () => Promise<{ default: ComponentType<P> }>,
): ComponentType<P> & { load: () => Promise<void> } {
  let loaded: ComponentType<P> | null = null;
  let pending: Promise<void> | null = null;
  const fetched = () =>
    (pending ??= load().then(
      (m) => {
        loaded = m.default;
      },
      (e: Error) => {
        pending = null; // shown again, it is fetched again
        throw e;
      },
    ));
  function Lazy(props: P) {
    const [, redraw] = useState(0);
    const [error, setError] = useState<Error | null>(null);
    const missing = !loaded;
    useLayoutEffect(() => {
      // It may have come between the drawing and this: the drawing is what was without it.
      if (missing)
        fetched().then(
          () => redraw((n) => n + 1),
          (e: Error) => setError(e),
        );
    }, []);
    if (error) throw error;
    if (!loaded) fetched().catch(() => undefined); // before the skeleton is painted; told above
    const Shown = loaded;
    return Shown ? <Shown {...props} /> : <Skeleton />;
  }
  /** So that it is there when it is first shown. */
  Lazy.load = fetched;
  return Lazy;
}
