"""Data analysis in a sandbox: numbers and a plot come back. The image needs numpy and matplotlib, which
opensandbox/code-interpreter has (`make images`). pip install opensandbox-code-interpreter, then

    python data_analysis.py [IMAGE [FILE.png]]
"""
import sys

from code_interpreter import CodeInterpreterSync
from opensandbox import SandboxSync

image = sys.argv[1] if len(sys.argv) > 1 else "opensandbox/code-interpreter"
file = sys.argv[2] if len(sys.argv) > 2 else "plot.png"

# Where the server is: OPEN_SANDBOX_DOMAIN (default localhost:8080) and OPEN_SANDBOX_API_KEY.
with SandboxSync.create(image, entrypoint=["tail", "-f", "/dev/null"]) as sandbox:
    codes = CodeInterpreterSync.create(sandbox).codes
    python = codes.create_context("python")
    # Variables stay from run to run.
    codes.run("""
import numpy
days = numpy.arange(1, 31)
visits = 100 + 7 * days + days * 37 % 23
""", context=python)
    slope = codes.run("'%.2f visits a day' % numpy.polyfit(days, visits, 1)[0]", context=python)
    print("growth:", slope.result[0].text)
    drawn = codes.run("""
import matplotlib.pyplot as plt
plt.plot(days, visits, "o", days, numpy.poly1d(numpy.polyfit(days, visits, 1))(days))
plt.xlabel("day"); plt.ylabel("visits")
plt.savefig("/tmp/plot.png")
""", context=python)
    if drawn.error:
        sys.exit(f"{drawn.error.name}: {drawn.error.value}")
    # A figure is also a result of its run, as image/png; this client keeps the text of results only.
    with open(file, "wb") as picture:
        picture.write(sandbox.files.read_bytes("/tmp/plot.png"))
    print("plot:", file)
    sandbox.kill()
