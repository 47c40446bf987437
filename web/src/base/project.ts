// Which of the server's projects is looked at. With one project nobody has to think of it: its name
// is in no address.

import { computed, signal } from '@preact/signals';
import * as api from '../api';
import { place, setQuery } from './route';

export interface Project {
  project: string;
  root: string;
}

export const projects = signal<Project[]>([]);

export async function readProjects(): Promise<void> {
  try {
    projects.value = (await api.projects()).projects;
  } catch {
    // Who has to sign in first reads them then.
  }
}

/** The project of the address; the only one; or null: all of them, where a page can show all. */
export const chosen = computed<string | null>(() => {
  const named = place.value.query.get('project');
  if (named) return named;
  return projects.value.length === 1 ? (projects.value[0]?.project ?? null) : null;
});

/** For pages that need one project: the chosen one or the first. */
export const project = computed<string | null>(
  () => chosen.value ?? projects.value[0]?.project ?? null,
);

/** What an address carries: nothing while there is only one project. */
export const projectQuery = computed<string | null>(() =>
  projects.value.length > 1 ? project.value : null,
);

export const choose = (p: string | null) => setQuery({ project: p });
