// Short answers to what somebody did. They go by themselves; errors stay until they are closed.

import { signal } from '@preact/signals';
import { words } from '../base/words';
import { IconButton } from './bits';
import type { Problem } from '../api/request';

interface Toast {
  id: number;
  text: string;
  bad: boolean;
  href?: string | undefined;
}

const shown = signal<Toast[]>([]);
let last = 0;

export function say(text: string, how: { bad?: boolean; href?: string } = {}): void {
  const id = ++last;
  shown.value = [...shown.value.slice(-3), { id, text, bad: !!how.bad, href: how.href }];
  if (!how.bad) setTimeout(() => drop(id), 6000);
}

export const sayProblem = (p: Problem) => say(p.detail ?? String(p), { bad: true });

const drop = (id: number) => {
  shown.value = shown.value.filter((t) => t.id !== id);
};

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.value.map((t) => (
        <div key={t.id} class={`toast ${t.bad ? 'tone-failed' : 'tone-executed'}`}>
          <p>{t.href ? <a href={t.href}>{t.text}</a> : t.text}</p>
          <IconButton
            icon="close"
            label={words.close}
            kind="bare small"
            onClick={() => drop(t.id)}
          />
        </div>
      ))}
    </div>
  );
}
