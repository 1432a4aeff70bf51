"""Read a JSON list of specifications from stdin, and write a list of their pictures to stdout.

This program runs in a separate process, because the JavaScript engine needs 100 MB, and if it
fails, for example because of a memory limit, it ends its process.
"""

import json
import sys

import vl_convert

if __name__ == "__main__":
    specs = json.load(sys.stdin)
    json.dump([vl_convert.vegalite_to_svg(spec) for spec in specs], sys.stdout)
