"""Read specifications as a JSON list from stdin, and write their pictures to stdout, as a list.

It runs in a process of its own: the JavaScript engine needs 100 MB, and if it fails, such as under
a limit of memory, it ends its process.
"""

import json
import sys

import vl_convert

if __name__ == "__main__":
    specs = json.load(sys.stdin)
    json.dump([vl_convert.vegalite_to_svg(spec) for spec in specs], sys.stdout)
