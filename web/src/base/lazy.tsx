// A part of a page that is loaded when it is first shown.

import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Skeleton } from '../parts/bits';

export function lazy<P extends object>(
  load: () => Promise<{ default: ComponentType<P> }>,
): ComponentType<P> {
  let loaded: ComponentType<P> | null = null;
  return function Lazy(props: P) {
    const [, redraw] = useState(0);
    const [error, setError] = useState<Error | null>(null);
    useEffect(() => {
      if (loaded) return;
      load().then(
        (m) => {
          loaded = m.default;
          redraw((n) => n + 1);
        },
        (e: Error) => setError(e),
      );
    }, []);
    if (error) throw error;
    const Shown = loaded;
    return Shown ? <Shown {...props} /> : <Skeleton />;
  };
}
