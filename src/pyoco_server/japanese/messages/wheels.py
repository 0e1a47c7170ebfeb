"""Wheels: their names, their content, their registration."""

from __future__ import annotations

TEXTS = {
    "{name} is not the name of a wheel, as in {example}": "{name} は wheel のファイル名ではありません（例: {example}）",
    "{name} is not the name of a wheel, as in {example}: {error}": (
        "{name} は wheel のファイル名ではありません（例: {example}）: {error}"
    ),
    "tags: {name} is not a tag; tags are separated by commas, each of 1 to 64 of A-Z a-z 0-9 _ -": (
        "tags: {name} は tag ではありません。A-Z a-z 0-9 _ - の 1～64 文字をカンマで区切ってください"
    ),
    "tags: {count} are more than {limit}": "tags: {count} 個あります。上限は {limit} 個です",
    "{file}: {name} is registered, and only a version above {version} may follow": (
        "{file}: {name} が登録済みです。{version} より新しいバージョンだけを登録できます"
    ),
    "the part 'wheel' is missing: a wheel as a file; with curl: {example}": (
        "パート 'wheel' がありません。wheel をファイルとして送ってください。curl の例: {example}"
    ),
    "the wheel has more than {size} bytes (PYOCO_WHEEL_MAX_BYTES)": (
        "wheel が {size} バイト（PYOCO_WHEEL_MAX_BYTES）を超えています"
    ),
    "replace must be true or false": "replace は true か false にしてください",
    "pieces of the upload are missing; upload it again": "アップロードの一部が欠けています。再登録してください",
    # Their content
    "{file}: a version with an epoch ({epoch}!) is refused, because no ordinary version could follow; build it without "
    "the epoch": (
        "{file}：epoch（{epoch}!）付きのバージョンは登録できません。以後、通常のバージョンを登録できなくなるためです。"
        "epoch なしで作り直してください"
    ),
    "shared and tenant_id exclude each other": "shared と tenant_id は同時に指定できません",
    "shared must be true or false": "shared は true か false にしてください",
    "{name} is shared by all tenants; an administrator removes it with shared=true (--shared)": (
        "{name} は全 tenant で共有されています。管理者が shared=true（--shared）で削除します"
    ),
    "{name} is not a wheel: {error}": "{name} は wheel ではありません: {error:ja}",
    "its directory is too large": "zip のディレクトリが大きすぎます",
    "it has more than {count} files": "ファイルが {count} 個を超えています",
    "it does not end like a zip": "zip の終端がありません",
    "it does not begin with a file": "zip の先頭がファイルではありません",
    "it is encrypted": "暗号化されています",
    "it is compressed by a method ({method}) that not every Python can read": (
        "一部の Python が読み取れない圧縮方式（{method}）です"
    ),
    "it has a file that is not before its directory": "ディレクトリより後ろにファイルがあります",
    "{name}: its {part} is larger than {count} bytes; make it shorter": (
        "{name}：{part} が {count} バイトを超えています。短くしてください"
    ),
    "{name} has two files of the same name": "{name} に同名のファイルが 2 つあります",
    "{name} has files that overlap": "{name} に重なり合うファイルがあります",
    "{name} would unpack to {size} bytes, which is out of all proportion": (
        "{name} は展開すると {size} バイトになり、大きすぎます"
    ),
    "{name} has {count} folders *.dist-info instead of one": (
        "{name} の *.dist-info フォルダが {count} 個あります（必要なのは 1 個です）"
    ),
    "{name} has no {files} in its *.dist-info": "{name} の *.dist-info に {files} がありません",
    "{name} has a file that would leave its folder, or no file name: {shown}": (
        "{name} に、フォルダの外に出るか名前のないファイルがあります: {shown}"
    ),
    "{name} has a file name that is too long for file systems: {shown}": "{name} に長すぎるファイル名があります: {shown}",
    "{name} has a link or a device: {shown}": "{name} にリンクかデバイスがあります: {shown}",
    "{name} has a folder of another wheel: {folder}": "{name} に別の wheel のフォルダがあります: {folder}",
    "{name}: its METADATA must have Name and Version once": "{name}: METADATA の Name と Version は 1 つずつ必要です",
    "{name}: its METADATA is of {package} {version}": "{name}: METADATA は {package} {version} のものです",
    "{name} requires a package from an address: {shown}; name the package only, and upload its wheel": (
        "{name} にアドレス付きの依存があります: {shown}。パッケージ名だけを書き、その wheel を登録してください"
    ),
    "{name} has sha256 {digest}, and the registry says {registered}": (
        "{name} の sha256 は {digest} ですが、登録値は {registered} です"
    ),
}
