// A log of any size, by lines: an index says where each thousandth line begins, blocks between two of
// them are fetched when they come into view, and a few are kept. Before the index is there, the end
// of the log is: what people look at first.
//
// Nothing is ever held whole: at most BLOCKS blocks and one tail. New bytes of a running task are
// appended to the last block and to the index.

import * as api from '../api';
import { fetchRaw, type Query } from '../api/request';

export const EVERY = 1000;
const BLOCKS = 12;
const BLOCK_BYTES = 2 << 20; // of a block with huge lines, this much is fetched
const TAIL_BYTES = 64 << 10;
const GROW_BYTES = 512 << 10;

export interface LogPlace {
  run: string;
  task: string;
  project: string | null;
  attempt: number | null;
  rank: number | null;
}

interface Block {
  lines: string[];
  /** The end of the block's bytes wasn't fetched. */
  cut: boolean;
}

export class LogSource {
  lines = 0;
  bytes = 0;
  /** false: `lines` counts only the end of the log; numbers aren't known yet. */
  indexed = false;
  ready = false;
  problem: api.Problem | null = null;
  firstError: number | null = null;
  offsets: number[] = [0];
  private every = EVERY;
  private blocks = new Map<number, Block>();
  private asked = new Set<number>();
  private tail: string[] = [];
  private whole = false; // an older server, or one rank: all lines are in `tail`
  private stop = new AbortController();
  private growing = false;
  private openEnd = false; // the last line has no newline yet

  constructor(
    readonly place: LogPlace,
    private changed: () => void,
  ) {
    void this.open();
  }

  close(): void {
    this.stop.abort();
  }

  private query(more: Query = {}): Query {
    const { task, project, attempt, rank } = this.place;
    return { project, task, attempt, rank, ...more };
  }

  private path(what = ''): string {
    return `/api/v1/runs/${encodeURIComponent(this.place.run)}/log${what}`;
  }

  private async text(q: Query): Promise<string> {
    const a = await fetchRaw('GET', this.path(), this.query(q), undefined, this.stop.signal);
    return new TextDecoder().decode(await a.arrayBuffer());
  }

  private async open(): Promise<void> {
    if (this.place.rank !== null) {
      await this.readWhole();
      return;
    }
    const index = this.readIndex();
    try {
      // The end of a large log is here long before its index.
      const text = await this.text({ offset: -TAIL_BYTES, bytes: TAIL_BYTES });
      if (!this.indexed) {
        const full = new TextEncoder().encode(text).length >= TAIL_BYTES - 4;
        this.tail = split(full ? text.slice(text.indexOf('\n') + 1) : text);
        this.lines = this.tail.length;
        this.ready = true;
        this.changed();
      }
    } catch (e) {
      if ((e as Error).name === 'AbortError') return;
      if ((e as api.Problem).status === 400) await this.readWhole();
      else await this.fail(e as api.Problem);
      return;
    }
    await index;
  }

  private async fail(p: api.Problem): Promise<void> {
    if (p.status === 404) {
      this.ready = true; // no log: nothing was printed
      this.indexed = true;
      this.lines = 0;
    } else this.problem = p;
    this.changed();
  }

  private async readWhole(): Promise<void> {
    try {
      this.tail = split(await this.text({ lines: 20000 }));
      this.lines = this.tail.length;
      this.whole = this.indexed = this.ready = true;
      this.changed();
    } catch (e) {
      if ((e as Error).name !== 'AbortError') await this.fail(e as api.Problem);
    }
  }

  private async readIndex(): Promise<void> {
    try {
      const i = await api.logIndex(this.place.run, this.query({ rank: null }), this.stop.signal);
      this.every = i.every || EVERY;
      this.offsets = i.offsets.length ? i.offsets : [0];
      this.bytes = i.bytes;
      this.lines = i.lines;
      this.firstError = i.first_error ? i.first_error.line : null;
      this.indexed = true;
      this.ready = true;
      this.seed();
      this.changed();
    } catch {
      // The end of the log is shown without numbers.
    }
  }

  /** The tail is the end of the last blocks: with it the last lines don't have to be fetched again. */
  private seed(): void {
    const last = Math.max(0, this.offsets.length - 1);
    const from = last * this.every;
    const n = this.lines - from;
    if (n >= 0 && n <= this.tail.length)
      this.blocks.set(last, { lines: n ? this.tail.slice(-n) : [], cut: false });
    this.openEnd = false;
  }

  /** Line i (from 0), or undefined while it is fetched; null: of a block too large to fetch. */
  line(i: number): string | null | undefined {
    if (!this.indexed || this.whole) return this.tail[i];
    const b = Math.floor(i / this.every);
    const block = this.blocks.get(b);
    if (!block) {
      void this.fetchBlock(b);
      return undefined;
    }
    // The newest use is last: the first one goes when there are too many.
    this.blocks.delete(b);
    this.blocks.set(b, block);
    const text = block.lines[i - b * this.every];
    return text === undefined ? (block.cut ? null : '') : text;
  }

  private async fetchBlock(b: number): Promise<void> {
    if (this.asked.has(b)) return;
    const from = this.offsets[b];
    if (from === undefined) return;
    this.asked.add(b);
    const to = this.offsets[b + 1] ?? this.bytes;
    try {
      const n = Math.min(BLOCK_BYTES, to - from);
      const text = n > 0 ? await this.text({ offset: from, bytes: n }) : '';
      this.blocks.set(b, { lines: split(text), cut: n < to - from });
      for (const k of this.blocks.keys()) {
        if (this.blocks.size <= BLOCKS) break;
        this.blocks.delete(k);
      }
      this.changed();
    } catch (e) {
      if ((e as Error).name !== 'AbortError') {
        this.problem = e as api.Problem;
        this.changed();
      }
    }
    this.asked.delete(b);
  }

  /** Reads what was printed since. True when there was something. */
  async grow(): Promise<boolean> {
    if (this.growing) return false;
    this.growing = true;
    try {
      if (this.place.rank !== null || this.whole) {
        const n = this.lines;
        await this.readWhole();
        return this.lines !== n;
      }
      if (!this.indexed) {
        await this.readIndex();
        return this.indexed;
      }
      const text = await this.text({ offset: this.bytes, bytes: GROW_BYTES });
      if (!text) return false;
      this.append(text);
      this.changed();
      return true;
    } catch {
      return false; // the next turn tries again
    } finally {
      this.growing = false;
    }
  }

  private append(text: string): void {
    const encoder = new TextEncoder();
    const ended = text.endsWith('\n');
    const parts = split(text);
    let at = this.bytes;
    parts.forEach((part, k) => {
      const size = encoder.encode(part).length + (k < parts.length - 1 || ended ? 1 : 0);
      if (k === 0 && this.openEnd && this.lines > 0) {
        const b = Math.floor((this.lines - 1) / this.every);
        const block = this.blocks.get(b);
        if (block)
          block.lines[block.lines.length - 1] = (block.lines[block.lines.length - 1] ?? '') + part;
      } else {
        const b = Math.floor(this.lines / this.every);
        if (this.lines % this.every === 0 && b > 0) this.offsets[b] = at;
        let block = this.blocks.get(b);
        if (!block && this.lines % this.every === 0) {
          block = { lines: [], cut: false };
          this.blocks.set(b, block);
        }
        block?.lines.push(part);
        this.lines++;
      }
      at += size;
    });
    this.bytes += encoder.encode(text).length;
    this.openEnd = !ended;
  }

  /** The text of some lines, for the clipboard. */
  async range(from: number, to: number): Promise<string> {
    const out: string[] = [];
    for (let i = from; i <= to && i < this.lines; i++) {
      let l = this.line(i);
      for (let tries = 0; l === undefined && tries < 100; tries++) {
        await this.fetchBlock(Math.floor(i / this.every));
        l = this.line(i);
      }
      out.push(l ?? '');
    }
    return out.join('\n');
  }
}

/** Lines of a text; a newline at its end begins no line. */
export function split(text: string): string[] {
  if (text === '') return [];
  const lines = text.split('\n');
  if (lines[lines.length - 1] === '') lines.pop();
  return lines;
}
