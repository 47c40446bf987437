// Reading from the server into a component: what was read stays while it is read again, so that
// nothing flickers; an answer that comes late for something no longer shown is dropped. It begins before
// the skeleton is painted: parts that read one after the other would wait a frame each.
//
// again() while something is read reads once more afterwards. It never breaks off what is under way:
// on a slow server, events that come faster than answers would leave the page empty.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Problem } from '../api/request';

export interface Loaded<T> {
  value: T | null;
  problem: Problem | null;
  /** Nothing to show yet: a skeleton's time. */
  first: boolean;
  again: () => void;
  set: (v: T) => void;
}

export function useLoad<T>(
  read: ((signal: AbortSignal) => Promise<T>) | null,
  on: readonly unknown[],
  keep = false,
): Loaded<T> {
  const [state, setState] = useState<{ value: T | null; problem: Problem | null }>({
    value: null,
    problem: null,
  });
  const [turn, setTurn] = useState(0);
  const seen = useRef<string>('');
  const reading = useRef(false);
  const once = useRef(false); // more, when this one is read
  const key = JSON.stringify(on);
  useLayoutEffect(() => {
    if (!read) return;
    const stop = new AbortController();
    if (seen.current !== key && !keep) setState({ value: null, problem: null });
    seen.current = key;
    reading.current = true;
    once.current = false;
    const then = (
      next: (s: { value: T | null }) => { value: T | null; problem: Problem | null },
    ) => {
      if (stop.signal.aborted) return;
      reading.current = false;
      setState(next);
      if (once.current) setTurn((t) => t + 1);
    };
    read(stop.signal).then(
      (value) => then(() => ({ value, problem: null })),
      (e: Problem) => then((s) => ({ value: s.value, problem: e })),
    );
    return () => {
      reading.current = false;
      stop.abort();
    };
  }, [key, turn]);
  return {
    value: state.value,
    problem: state.problem,
    first: state.value === null && state.problem === null,
    again: () => {
      if (reading.current) once.current = true;
      else setTurn((t) => t + 1);
    },
    set: (value: T) => setState({ value, problem: null }),
  };
}
