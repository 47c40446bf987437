// Who reads here, and what they may do. An older server has no sessions: then all is allowed that
// the server allows.

import { computed, signal } from '@preact/signals';
import * as api from '../api';
import type { Session } from '../api';
import { words } from './words';

export const session = signal<Session | null>(null);
/** The session and the projects were asked for: pages may begin. */
export const known = signal(false);

export async function readSession(): Promise<void> {
  try {
    session.value = await api.session();
  } catch (e) {
    if ((e as api.Problem).status !== 401) session.value = null;
  }
}

const RANK = { viewer: 0, operator: 1, admin: 2 } as const;
export type Role = keyof typeof RANK;

/** Why this reader may not do what needs the role; null: may. */
export function whyNot(role: Role): string | null {
  const s = session.value;
  if (!s || !s.role) return s && s.sign_in && !s.signed_in ? words.run.needsRole(role) : null;
  return RANK[s.role] >= RANK[role] ? null : words.run.needsRole(role);
}

export const role = computed(() => session.value?.role ?? null);
