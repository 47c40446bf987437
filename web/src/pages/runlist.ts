// The runs that match, in pages of the server, newest first; several projects are merged by their
// starts. New and changed runs are patched in by id; what doesn't match the filters stays out.

import * as api from '../api';
import type { Run } from '../api';

export type Filters = Record<string, string>;
export type Row = Run & { project: string };

const PAGE = 200;
const ASK_MS = 2000;

type Query = Parameters<typeof api.runs>[0];

/** The runs that match now, as the server has them, whatever a list has read; about `most` at most. */
export async function matching(
  projects: string[],
  filters: Filters,
  most: number,
  signal?: AbortSignal,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (const project of projects) {
    let cursor: string | null = null;
    do {
      const query = { ...filters, project, limit: 500, ...(cursor ? { cursor } : {}) } as Query;
      const answer: Awaited<ReturnType<typeof api.runs>> = await api.runs(query, signal);
      rows.push(...answer.runs.map((r) => ({ ...r, project })));
      cursor = answer.next;
    } while (cursor !== null && rows.length < most);
  }
  return rows;
}

interface Source {
  project: string;
  cursor: string | null;
  ended: boolean;
  waiting: Row[]; // read, not yet merged
  total: number | null;
}

export class RunList {
  rows: Row[] = [];
  at = new Map<string, number>();
  ended = false;
  problem: api.Problem | null = null;
  private sources: Source[];
  private busy: Promise<void> | null = null;
  private stop = new AbortController();
  private asked = 0;

  constructor(
    projects: string[],
    private filters: Filters,
    private changed: () => void,
  ) {
    this.sources = projects.map((project) => ({
      project,
      cursor: null,
      ended: false,
      waiting: [],
      total: null,
    }));
  }

  get total(): number | null {
    if (this.ended) return this.rows.length;
    let sum = 0;
    for (const s of this.sources) {
      if (s.total === null) return null;
      sum += s.total;
    }
    return sum;
  }

  /** How many rows the table has: those to come count as well, once their number is known. */
  get length(): number {
    return this.total ?? this.rows.length + (this.ended ? 0 : 3);
  }

  close(): void {
    this.stop.abort();
    clearTimeout(this.asked);
  }

  /** Reads until row n is there, or nothing more comes. */
  async upTo(n: number): Promise<void> {
    while (this.rows.length <= n && !this.ended && !this.problem) {
      this.busy ??= this.more().finally(() => (this.busy = null));
      await this.busy;
    }
  }

  private async fill(s: Source, limit: number): Promise<void> {
    const answer = await api.runs(
      {
        ...this.filters,
        project: s.project,
        limit,
        ...(s.cursor ? { cursor: s.cursor } : {}),
      } as Parameters<typeof api.runs>[0],
      this.stop.signal,
    );
    s.cursor = answer.next;
    s.ended = answer.next === null;
    const total = (answer as { total?: number | null }).total;
    if (typeof total === 'number') s.total = total;
    s.waiting.push(...answer.runs.map((r) => ({ ...r, project: s.project })));
  }

  private async more(): Promise<void> {
    try {
      // The first page is small, so that it is there soon.
      const limit = this.rows.length === 0 ? 60 : this.rows.length > 1000 ? 500 : PAGE;
      await Promise.all(
        this.sources
          .filter((s) => !s.ended && s.waiting.length === 0)
          .map((s) => this.fill(s, limit)),
      );
      this.merge();
      this.problem = null;
    } catch (e) {
      if ((e as Error).name === 'AbortError') return;
      this.problem = e as api.Problem;
    }
    this.changed();
  }

  private merge(): void {
    if (this.sources.length === 1) {
      const s = this.sources[0]!;
      for (const r of s.waiting) this.push(r);
      s.waiting = [];
      this.ended = s.ended;
      return;
    }
    const sorted = 'sort' in this.filters;
    for (;;) {
      if (!sorted && this.sources.some((s) => !s.ended && s.waiting.length === 0)) return;
      const open = this.sources.filter((s) => s.waiting.length > 0);
      if (open.length === 0) break;
      open.sort((a, b) => ((a.waiting[0]!.started ?? '') < (b.waiting[0]!.started ?? '') ? 1 : -1));
      this.push(open[0]!.waiting.shift()!);
    }
    this.ended = this.sources.every((s) => s.ended);
  }

  private push(r: Row): void {
    const known = this.at.get(r.id);
    if (known !== undefined) {
      this.rows[known] = r;
      return;
    }
    this.at.set(r.id, this.rows.length);
    this.rows.push(r);
  }

  /** A run that changed or began. True when something shown is different now. `matches`: the server
   * gave it for these filters. */
  patch(r: Row, matches = false): boolean {
    const i = this.at.get(r.id);
    if (i !== undefined) {
      const before = this.rows[i]!;
      this.rows[i] = { ...before, ...r, metrics: r.metrics ?? before.metrics! };
      return true;
    }
    if (!this.sources.some((s) => s.project === r.project) || 'sort' in this.filters) return false;
    if (this.rows.length === 0 && !this.ended) {
      // The first page is on its way: whether it has this run, and where, is the server's to say.
      if (!matches) this.ask();
      return false;
    }
    if (!matches) {
      if (this.serverDecides) {
        this.ask();
        return false;
      }
      if (this.filters.state && this.filters.state !== r.state) return false;
      if (this.filters.pipeline && this.filters.pipeline !== r.pipeline) return false;
    }
    if ((this.rows[0]?.started ?? '') > (r.started ?? '')) return false; // older than the list's head: its page has it
    this.rows.unshift(r);
    this.at = new Map(this.rows.map((x, k) => [x.id, k]));
    for (const s of this.sources) if (s.project === r.project && s.total !== null) s.total++;
    return true;
  }

  private get serverDecides(): boolean {
    return Object.keys(this.filters).some((k) => !['metrics', 'state', 'pipeline'].includes(k));
  }

  /** Soon, and once for all that begins meanwhile. */
  private ask(): void {
    if (this.asked) return;
    this.asked = window.setTimeout(
      () => void this.refresh().finally(() => (this.asked = 0)),
      ASK_MS,
    );
  }

  /** Reads the newest page again and patches: after something may have been missed. */
  async refresh(): Promise<void> {
    for (const s of this.sources) {
      try {
        const a = await api.runs(
          { ...this.filters, project: s.project, limit: 60 } as Parameters<typeof api.runs>[0],
          this.stop.signal,
        );
        for (const r of [...a.runs].reverse()) this.patch({ ...r, project: s.project }, true);
        this.problem = null;
      } catch (e) {
        if ((e as Error).name === 'AbortError') return;
      }
    }
    this.changed();
  }
}
