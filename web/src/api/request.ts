// One function asks the server. Its errors are the API's problems, in the server's words.

import { signal } from '@preact/signals';
import { words } from '../base/words';

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
  ) {
    super(detail);
  }
}

/** What is read of an answer. */
export type Answer = Pick<
  Response,
  'ok' | 'status' | 'statusText' | 'arrayBuffer' | 'text' | 'json'
>;

export type Query = Record<string, string | number | boolean | null | undefined>;

/** Set when the server wants a token: the application then shows the sign-in page. */
export const signInWanted = signal(false);

export function address(path: string, query?: Query): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(query ?? {}))
    if (v !== null && v !== undefined && v !== '') q.set(k, String(v));
  const text = q.toString();
  return text ? `${path}?${text}` : path;
}

/** Who answers: the server, or in a report what is in its file. */
let ask: (address: string, how: RequestInit) => Response | Promise<Response> = (address, how) =>
  fetch(address, how);
export const answerWith = (by: typeof ask): void => {
  ask = by;
};

// What was asked ahead, until it is taken: each answer once.
const early = new Map<string, Promise<Answer>>();
const EARLY_MS = 10_000;
let collecting = false;

/** Sends what `reads` ask now. Who asks the same within seconds gets that answer. Resolves when all
 * answers are here, wholly. */
export async function ahead(reads: () => void): Promise<void> {
  collecting = true;
  try {
    reads();
  } finally {
    collecting = false;
  }
  setTimeout(() => early.clear(), EARLY_MS);
  await Promise.allSettled(early.values());
}

/** An answer that is here wholly: reading it takes no turn of the loop, in which a skeleton would be
 * painted. */
async function whole(answer: Response): Promise<Answer> {
  const bytes = await answer.arrayBuffer();
  const text = () => new TextDecoder().decode(bytes);
  return {
    ok: answer.ok,
    status: answer.status,
    statusText: answer.statusText,
    arrayBuffer: () => Promise.resolve(bytes),
    text: () => Promise.resolve(text()),
    json: () => Promise.resolve().then(() => JSON.parse(text()) as unknown),
  };
}

function sendAhead(to: string): Promise<never> {
  const answer = Promise.resolve(ask(to, { method: 'GET', credentials: 'same-origin' })).then(
    whole,
  );
  answer.catch(() => undefined); // told to whoever takes it
  early.set(to, answer);
  return new Promise(() => undefined);
}

function takeEarly(to: string): Promise<Answer> | undefined {
  const answer = early.get(to);
  early.delete(to);
  return answer;
}

async function problemOf(answer: Answer): Promise<Problem> {
  let detail = `${answer.status} ${answer.statusText}`;
  try {
    const p = (await answer.json()) as { detail?: string; title?: string };
    detail = p.detail || p.title || detail;
  } catch {
    // Not our server's error: a proxy's page, perhaps. The status says enough.
  }
  return new Problem(answer.status, detail);
}

export async function fetchRaw(
  method: string,
  path: string,
  query?: Query,
  body?: unknown,
  signal?: AbortSignal | null,
): Promise<Answer> {
  let answer: Answer;
  const to = address(path, query);
  const plain = method === 'GET';
  if (plain && collecting) return sendAhead(to);
  try {
    answer = await ((plain && takeEarly(to)) ||
      ask(to, {
        method,
        credentials: 'same-origin',
        headers: body === undefined ? {} : { 'Content-Type': 'application/json' },
        body: body === undefined ? null : JSON.stringify(body),
        signal: signal ?? null,
      }));
  } catch (e) {
    if ((e as Error).name === 'AbortError') throw e;
    throw new Problem(0, words.errors.network);
  }
  if (answer.ok) return answer;
  if (answer.status === 401) signInWanted.value = true;
  throw await problemOf(answer);
}

export async function request<T>(
  method: string,
  path: string,
  query?: Query,
  body?: unknown,
  signal?: AbortSignal | null,
): Promise<T> {
  const answer = await fetchRaw(method, path, query, body, signal);
  if (answer.status === 204) return undefined as T;
  return (await answer.json()) as T;
}
