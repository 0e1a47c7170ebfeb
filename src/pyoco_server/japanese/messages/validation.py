"""The messages of pydantic, by the templates of its error types."""

from __future__ import annotations

_COMPLEX = "https://docs.python.org/3/library/functions.html#complex"

TEXTS = {
    "a JSON object is required": "JSON オブジェクトが必要です",
    "Object has no attribute '{attribute}'": "属性 '{attribute}' がありません",
    "Invalid JSON: {error}": "JSON が不正です: {error}",
    "JSON decode error": "JSON として読み取れません",
    "JSON input should be string, bytes or bytearray": "JSON は文字列かバイト列で指定してください",
    "Cannot check `{method_name}` when validating from json, use a JsonOrPython validator instead": (
        "JSON の検証では `{method_name}` を確認できません"
    ),
    "Recursion error - cyclic reference detected": "循環参照があります",
    "Recursion error - maximum validation depth exceeded": "入れ子が深すぎます",
    "Field required": "必須の項目です",
    "Field is frozen": "この項目は変更できません",
    "Instance is frozen": "このオブジェクトは変更できません",
    "Extra inputs are not permitted": "未知の項目は指定できません",
    "Keys should be strings": "キーは文字列にしてください",
    "Error extracting attribute: {error}": "属性を取得できません: {error}",
    "Input should be a valid dictionary or instance of {class_name}": "オブジェクトにしてください（{class_name}）",
    "Input should be an object": "オブジェクトにしてください",
    "Input should be a valid dictionary or object to extract fields from": "オブジェクトにしてください",
    "Input should be a dictionary or an instance of {class_name}": "オブジェクトにしてください（{class_name}）",
    "Input should be an instance of {class_name}": "{class_name} のインスタンスにしてください",
    "Input should be a tuple, list, dictionary or an instance of {class_name}": (
        "配列かオブジェクトにしてください（{class_name}）"
    ),
    "Input should be an array or an object": "配列かオブジェクトにしてください",
    "The default factory uses validated data, but at least one validation error occurred": (
        "ほかの項目に誤りがあるため、既定値を決められません"
    ),
    "Input should be None": "null にしてください",
    "Input should be null": "null にしてください",
    "Input should be greater than {gt}": "{gt} より大きい値にしてください",
    "Input should be greater than or equal to {ge}": "{ge} 以上の値にしてください",
    "Input should be less than {lt}": "{lt} より小さい値にしてください",
    "Input should be less than or equal to {le}": "{le} 以下の値にしてください",
    "Input should be a multiple of {multiple_of}": "{multiple_of} の倍数にしてください",
    "Input should be a finite number": "有限の数値にしてください",
    "{field_type} should have at least {min_length} item{expected_plural} after validation, not {actual_length}": (
        "要素は {min_length} 個以上必要です（現在 {actual_length} 個）"
    ),
    "{field_type} should have at most {max_length} item{expected_plural} after validation, not {actual_length}": (
        "要素は {max_length} 個以下にしてください（現在 {actual_length} 個）"
    ),
    "Input should be iterable": "配列にしてください",
    "Error iterating over object, error: {error}": "要素を順に読み取れません: {error}",
    "Input should be a valid string": "文字列にしてください",
    "Input should be a valid string, unable to parse raw data as a unicode string": (
        "文字列にしてください（Unicode として読み取れません）"
    ),
    "String should have at least {min_length} character{expected_plural}": "{min_length} 文字以上にしてください",
    "String should have at most {max_length} character{expected_plural}": "{max_length} 文字以下にしてください",
    "String should match pattern '{pattern}'": "パターン '{pattern}' に一致する文字列にしてください",
    "String should contain only ASCII characters": "ASCII 文字だけにしてください",
    "Input should be {expected}": "次のいずれかにしてください: {expected}",
    "Input should be a valid dictionary": "オブジェクトにしてください",
    "Input should be a valid frozendict": "オブジェクトにしてください",
    "Input should be a valid OrderedDict": "オブジェクトにしてください",
    "Input should be a valid Counter": "オブジェクトにしてください",
    "Input should be a valid mapping, error: {error}": "オブジェクトにしてください: {error}",
    "Input should be a valid list": "配列にしてください",
    "Input should be a valid array": "配列にしてください",
    "Input should be a valid deque": "配列にしてください",
    "Input should be a valid tuple": "配列にしてください",
    "Input should be a valid set": "配列にしてください",
    "Input should be a valid frozenset": "配列にしてください",
    "Set items should be hashable": "集合の要素に使えない値があります",
    "Input should be a valid boolean": "true か false にしてください",
    "Input should be a valid boolean, unable to interpret input": "true か false にしてください",
    "Input should be a valid integer": "整数にしてください",
    "Input should be a valid integer, unable to parse string as an integer": (
        "整数にしてください（整数として読み取れません）"
    ),
    "Unable to parse input string as an integer, exceeded maximum size": "整数の桁数が多すぎます",
    "Input should be a valid integer, got a number with a fractional part": ("整数にしてください（小数部があります）"),
    "Input should be a valid number": "数値にしてください",
    "Input should be a valid number, unable to parse string as a number": (
        "数値にしてください（数値として読み取れません）"
    ),
    "Input should be a valid bytes": "バイト列にしてください",
    "Data should have at least {min_length} byte{expected_plural}": "{min_length} バイト以上にしてください",
    "Data should have at most {max_length} byte{expected_plural}": "{max_length} バイト以下にしてください",
    "Data should be valid {encoding}: {encoding_error}": "{encoding} として読み取れません: {encoding_error}",
    "Value error, {error}": "{error:ja}",
    "Assertion failed, {error}": "{error:ja}",
    "Input should be the 'MISSING' sentinel": "値を省略してください",
    "Input should be the 'Ellipsis' literal": "値を省略してください",
    "Input should be a valid date": "日付にしてください",
    "Input should be a valid date in the format YYYY-MM-DD, {error}": "日付は YYYY-MM-DD の形式にしてください（{error}）",
    "Input should be a valid date or datetime, {error}": "日付か日時にしてください（{error}）",
    "Datetimes provided to dates should have zero time - e.g. be exact dates": "時刻を含まない日付にしてください",
    "Date should be in the past": "過去の日付にしてください",
    "Date should be in the future": "未来の日付にしてください",
    "Input should be a valid time": "時刻にしてください",
    "Input should be in a valid time format, {error}": "時刻の形式にしてください（{error}）",
    "Input should be a valid datetime": "日時にしてください",
    "Input should be a valid datetime, {error}": "日時にしてください（{error}）",
    "Invalid datetime object, got {error}": "日時が不正です（{error}）",
    "Input should be a valid datetime or date, {error}": "日時か日付にしてください（{error}）",
    "Input should be in the past": "過去の日時にしてください",
    "Input should be in the future": "未来の日時にしてください",
    "Input should not have timezone info": "タイムゾーンのない日時にしてください",
    "Input should have timezone info": "タイムゾーン付きの日時にしてください",
    "Timezone offset of {tz_expected} required, got {tz_actual}": (
        "タイムゾーンのオフセットは {tz_expected} にしてください（現在 {tz_actual}）"
    ),
    "Input should be a valid timedelta": "時間の長さにしてください",
    "Input should be a valid duration": "時間の長さにしてください",
    "Input should be a valid timedelta, {error}": "時間の長さにしてください（{error}）",
    "Input should be a valid duration, {error}": "時間の長さにしてください（{error}）",
    "Input should be a subclass of {class}": "{class} のサブクラスにしてください",
    "Input should be callable": "呼び出し可能な値にしてください",
    "Input tag '{tag}' found using {discriminator} does not match any of the expected tags: {expected_tags}": (
        "{discriminator} の値 '{tag}' は使えません。使える値: {expected_tags}"
    ),
    "Unable to extract tag using discriminator {discriminator}": "{discriminator} がありません",
    "Arguments must be a tuple, list or a dictionary": "引数は配列かオブジェクトにしてください",
    "Arguments must be an array or an object": "引数は配列かオブジェクトにしてください",
    "Missing required argument": "必須の引数です",
    "Unexpected keyword argument": "未知の引数は指定できません",
    "Missing required keyword only argument": "必須のキーワード引数です",
    "Unexpected positional argument": "位置引数は指定できません",
    "Missing required positional only argument": "必須の位置引数です",
    "Got multiple values for argument": "引数が重複しています",
    "URL input should be a string or URL": "URL は文字列にしてください",
    "Input should be a valid URL, {error}": "URL にしてください（{error}）",
    "Input violated strict URL syntax rules, {error}": "URL の構文が不正です（{error}）",
    "URL should have at most {max_length} character{expected_plural}": "URL は {max_length} 文字以下にしてください",
    "URL scheme should be {expected_schemes}": "URL のスキームは {expected_schemes} にしてください",
    "UUID input should be a string, bytes or UUID object": "UUID は文字列にしてください",
    "Input should be a valid UUID, {error}": "UUID にしてください（{error}）",
    "UUID version {expected_version} expected": "バージョン {expected_version} の UUID にしてください",
    "Decimal input should be an integer, float, string or Decimal object": "10 進数は数値か文字列にしてください",
    "Input should be a valid decimal": "10 進数にしてください",
    "Decimal input should have no more than {max_digits} digit{expected_plural} in total": (
        "10 進数は全体で {max_digits} 桁以下にしてください"
    ),
    "Decimal input should have no more than {decimal_places} decimal place{expected_plural}": (
        "小数部は {decimal_places} 桁以下にしてください"
    ),
    "Decimal input should have no more than {whole_digits} digit{expected_plural} before the decimal point": (
        "整数部は {whole_digits} 桁以下にしてください"
    ),
    "Fraction input should be an integer, float, string or Fraction object": "分数は数値か文字列にしてください",
    "Input is not a valid fraction": "分数として読み取れません",
    "Input should be a valid python complex object, a number, or a valid complex string following the rules at "
    f"{_COMPLEX}": "複素数にしてください",
    f"Input should be a valid complex string following the rules at {_COMPLEX}": "複素数の文字列にしてください",
}
