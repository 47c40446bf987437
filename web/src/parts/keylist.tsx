import { words } from '../base/words';
import { Dialog } from './bits';

const r = words.keys.rows;
const groups: [string, [string, string][]][] = [
  [
    words.keys.anywhere,
    [
      [r.find, 'Ctrl K'],
      [r.search, '/'],
      [r.goHome, 'g h'],
      [r.goRuns, 'g r'],
      [r.goStart, 'g n'],
      [r.goSchedules, 'g s'],
      [r.goLineage, 'g l'],
      [r.goStore, 'g o'],
      [r.help, '?'],
    ],
  ],
  [
    words.keys.lists,
    [
      [r.move, '↑ ↓ j k'],
      [r.page, 'PgUp PgDn'],
      [r.ends, 'Home End'],
      [r.open, 'Enter'],
      [r.select, 'x'],
      [r.escape, 'Esc'],
    ],
  ],
  [
    words.keys.graph,
    [
      [r.pan, '← ↑ → ↓'],
      [r.zoom, '+ − 0'],
      [r.fold, '← → (steps)'],
    ],
  ],
  [
    words.keys.log,
    [
      [r.page, 'PgUp PgDn'],
      [r.ends, 'Home End'],
      [r.match, 'n N'],
      [r.follow, 'f'],
    ],
  ],
];

export function Keys({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={words.keys.title} onClose={onClose} wide>
      <div class="keylist">
        {groups.map(([title, rows]) => (
          <section key={title} class="stack">
            <h3>{title}</h3>
            <dl>
              {rows.map(([what, key]) => (
                <>
                  <dt>{what}</dt>
                  <dd>
                    <kbd>{key}</kbd>
                  </dd>
                </>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
