import io
import json
import os
import tarfile

EVIL = "<img src=x onerror=pwned=1>"
TRY = """<!doctype html><title>x</title><pre id=said></pre><script>
const said = document.getElementById('said');
const tell = (what, result) => { said.textContent += what + ': ' + result + '\\n'; };
const attempt = (what, f) => { try { f(); tell(what, 'ALLOWED'); } catch (e) { tell(what, 'refused'); } };
attempt('parent', () => parent.document.body.append('x'));
attempt('cookie', () => document.cookie);
attempt('storage', () => localStorage.setItem('x', '1'));
attempt('top', () => { top.location.href = 'about:blank'; });
fetch('/api/v1/runs').then((a) => tell('fetch', a.ok ? 'ALLOWED' : 'refused'), () => tell('fetch', 'refused'));
</script>"""
os.makedirs("out", exist_ok=True)
print(EVIL)
print("\x1b]8;;javascript:pwned=1\x07click\x1b]8;;\x07 \x1b]0;" + EVIL + "\x07\x1b[31m<b class=evil>\x1b[0m")
print("javascript:pwned=1 " + "x" * 5000)
files = {
    EVIL + ".txt": EVIL, "plain.txt": EVIL, "evil.html": TRY, "confusion.csv": f"truth,{EVIL},b\n{EVIL},1,2\nb,3,4\n", "evil.json": json.dumps({EVIL: [EVIL, {EVIL: 1}]}), "evil.csv": EVIL + ",b\n" + EVIL + ",2\n",
    "evil.svg": '<svg xmlns="http://www.w3.org/2000/svg"><script>parent.pwned=1</script><image href="x" onerror="parent.pwned=1"/></svg>', "evil.ipynb": json.dumps({"cells": [EVIL]}),
    "evil.png": TRY, "evil.md": "[x](javascript:pwned=1) " + EVIL, "evil.pdf": TRY,
}
for name, text in files.items():
    open(os.path.join("out", name), "w").write(text)
with tarfile.open("out/evil.tar", "w") as tar:
    for name, text in ((EVIL + ".cls", EVIL), ("b.cls", "1")):
        info = tarfile.TarInfo(name)
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text.encode()))
with open("series.jsonl", "w") as series:
    for i in range(20):
        series.write(json.dumps({"step": i, EVIL: i, "wall_time": 1.7e9 + i}) + "\n")
json.dump({EVIL: 1.0, "plain": 2.0}, open("metrics.json", "w"))
