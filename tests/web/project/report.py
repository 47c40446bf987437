import io
import json
import os
import struct
import tarfile
import zlib

os.makedirs("report/curves", exist_ok=True)


def png(r, g, b):
    rows = b"".join(b"\0" + bytes((r, g, b)) * 8 for _ in range(8))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


open("report/photo.png", "wb").write(png(200, 80, 40))
open("report/plot.svg", "w").write('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20"><path d="M0 20L40 0" stroke="red"/></svg>')
open("report/report.html", "w").write("<!doctype html><title>Report</title><h1>The report</h1><p id=said>static</p><script>document.getElementById('said').textContent = 'scripts run here';"
                                      "try { parent.document.title = 'taken' } catch (e) { document.title = 'kept out' }</script>")
open("report/confusion.csv", "w").write("truth,cat,dog\ncat,8,2\ndog,1,9\n")
open("report/notes.txt", "w").write("".join(f"line {i}\n" for i in range(40000)))
json.dump({"accuracy": 0.9, "classes": ["cat", "dog"], "nested": {"deep": [1, 2, 3]}}, open("report/summary.json", "w"))
open("report/bytes.bin", "wb").write(bytes(range(256)))
open("report/curves/a.txt", "w").write("a\n")
samples = 44100 // 20
open("report/tone.wav", "wb").write(b"RIFF" + struct.pack("<I", 36 + samples) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 44100, 44100, 1, 8) + b"data" + struct.pack("<I", samples) + bytes(128 for _ in range(samples)))
with tarfile.open("report/samples.tar", "w") as tar:
    for i in range(12):
        for name, data in ((f"img{i:03}.png", png(i * 20, 90, 200 - i * 10)), (f"img{i:03}.cls", str(i % 3).encode())):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
json.dump({"accuracy": 0.9}, open("metrics.json", "w"))
