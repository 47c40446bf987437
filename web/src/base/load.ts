// Reading from the server into a component: what was read stays while it is read again, so that
// nothing flickers; an answer that comes late for something no longer shown is dropped. It begins before
// the skeleton is painted: parts that read one after the other would wait a frame each.

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
  const key = JSON.stringify(on);
  useLayoutEffect(() => {
    if (!read) return;
    const stop = new AbortController();
    if (seen.current !== key && !keep) setState({ value: null, problem: null });
    seen.current = key;
    read(stop.signal).then(
      (value) => {
        if (!stop.signal.aborted) setState({ value, problem: null });
      },
      (e: Problem) => {
        if (!stop.signal.aborted) setState((s) => ({ value: s.value, problem: e }));
      },
    );
    return () => stop.abort();
  }, [key, turn]);
  return {
    value: state.value,
    problem: state.problem,
    first: state.value === null && state.problem === null,
    again: () => setTurn((t) => t + 1),
    set: (value: T) => setState({ value, problem: null }),
  };
}
