// Who changed what, newest first. For administrators.

import { useEffect, useState } from 'preact/hooks';
import * as api from '../api';
import { words } from '../base/words';
import { Empty, Skeleton, Time, Trouble } from '../parts/bits';

export default function AuditPage() {
  const [entries, setEntries] = useState<api.Audit['entries'] | null>(null);
  const [next, setNext] = useState<string | null>(null);
  const [problem, setProblem] = useState<api.Problem | null>(null);
  const read = (cursor: string | null) =>
    api.audit({ limit: 100, cursor }).then(
      (a) => {
        setEntries((e) => [...(cursor ? (e ?? []) : []), ...a.entries]);
        setNext(a.next);
        setProblem(null);
      },
      (e: api.Problem) => setProblem(e),
    );
  useEffect(() => void read(null), []);
  const w = words.audit;
  return (
    <>
      <div class="pagehead">
        <h1>{w.title}</h1>
      </div>
      {problem && <Trouble problem={problem} again={() => void read(null)} />}
      {!entries && !problem && <Skeleton />}
      {entries?.length === 0 && <Empty title={w.empty} />}
      {entries && entries.length > 0 && (
        <div class="card tablewrap oneline" tabIndex={0} role="region" aria-label={w.title}>
          <table>
            <thead>
              <tr>
                {[w.at, w.who, w.way, w.what, w.status, w.address].map((t) => (
                  <th scope="col" key={t}>
                    {t}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {entries.map((e, i) => (
                <tr key={i}>
                  <td>
                    <Time at={e.at} how="moment" />
                  </td>
                  <td>
                    {e.who ?? words.none} <span class="quiet">{e.role}</span>
                  </td>
                  <td>{e.way}</td>
                  <td class="mono">
                    {e.method} {e.path}
                  </td>
                  <td class={`num ${e.status >= 400 ? 'state tone-failed' : ''}`}>{e.status}</td>
                  <td class="quiet">{e.address}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {next && (
        <div>
          <button type="button" class="btn" onClick={() => void read(next)}>
            {words.more}
          </button>
        </div>
      )}
    </>
  );
}
